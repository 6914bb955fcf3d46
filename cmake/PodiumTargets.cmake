# One wrapper per kind of target, so that every folder's list reads as data.
#
#   podium_library(NAME graph SOURCES a.cc b.cc DEPS tensor TESTS a_test.cc)
#   podium_program(NAME podium SOURCES main.cc DEPS cli)
#
# A library is called podium_NAME; DEPS are names of the house's own libraries, LINKS any other target. TESTS are built
# into one program, NAME_test, whose cases ctest lists one by one; TEST_DEPS are libraries for those alone.

function(podium_library)
  cmake_parse_arguments(A "" "NAME" "SOURCES;DEPS;LINKS;TESTS;TEST_DEPS" ${ARGN})
  set(target podium_${A_NAME})
  add_library(${target} STATIC ${A_SOURCES})
  add_library(Podium::${A_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${A_NAME})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/podium>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE podium_flags)
  foreach(dep ${A_DEPS})
    target_link_libraries(${target} PUBLIC podium_${dep})
  endforeach()
  target_link_libraries(${target} PRIVATE ${A_LINKS})
  set_property(GLOBAL APPEND PROPERTY PODIUM_LIBRARIES ${target})
  if(A_TESTS AND PODIUM_TESTS)
    podium_test(NAME ${A_NAME}_test SOURCES ${A_TESTS} DEPS ${A_NAME} ${A_TEST_DEPS} LINKS ${A_LINKS})
  endif()
endfunction()

function(podium_program)
  cmake_parse_arguments(A "" "NAME" "SOURCES;DEPS;LINKS" ${ARGN})
  add_executable(${A_NAME} ${A_SOURCES})
  target_link_libraries(${A_NAME} PRIVATE podium_flags ${A_LINKS})
  foreach(dep ${A_DEPS})
    target_link_libraries(${A_NAME} PRIVATE podium_${dep})
  endforeach()
endfunction()

function(podium_test)
  cmake_parse_arguments(A "" "NAME;TIMEOUT" "SOURCES;DEPS;LINKS;LABELS" ${ARGN})
  if(NOT PODIUM_TESTS)
    return()
  endif()
  podium_program(NAME ${A_NAME} SOURCES ${A_SOURCES} DEPS ${A_DEPS} LINKS GTest::gtest GTest::gtest_main ${A_LINKS})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  gtest_discover_tests(${A_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "${A_LABELS}" SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()
