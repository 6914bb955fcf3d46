# One wrapper per kind of target, so that every folder's list reads as data.
#
#   podium_library(NAME graph SOURCES a.cc b.cc DEPS tensor TESTS a_test.cc)
#   podium_program(NAME podium SOURCES main.cc DEPS cli)
#   podium_test(NAME law_test SOURCES law_test.cc DEPS train LABELS long TIMEOUT 900)
#   podium_fuzz(NAME idx_fuzz SOURCES idx_fuzz.cc DEPS data CORPUS corpus/idx)
#
# A library is called podium_NAME; DEPS are names of the house's own libraries, LINKS any other target. TESTS are built
# into one program, NAME_test, whose cases ctest lists one by one; TEST_DEPS are libraries for those alone. TESTS_COMPUTE
# (COMPUTES of a test) says that they run for long enough to be optimised under sanitizers, too. The cases of tests with
# RANKS, whose processes share the cores and look at the clock, run one after the other, beside one other test at most.
# FOR_TESTS: a library that only tests link; it is neither installed nor part of programs that load plugins.
#
# With PODIUM_UNITY the sources of a library are compiled as one file, save those with options of their own. ALIKE_NAMES says
# that its files give the same names to different things, as the rules of operations do: they stay apart, and the header that it
# names, which all of them include, is compiled once.
#
# LABELS is one of `quick` (what TESTS of a library get: the sanitizer builds run these), `law`, `unit` (where none is
# given), or `long` (run by hand: scripts/test.sh leaves them out). A fuzz target is built with PODIUM_FUZZ and run by scripts/fuzz.sh, which starts it
# from the files in CORPUS, with inputs of up to MOST_BYTES (by default 4096, or the largest file there); it is no test of ctest.

function(podium_library)
  cmake_parse_arguments(A "TESTS_COMPUTE;FOR_TESTS" "NAME;ALIKE_NAMES" "SOURCES;DEPS;LINKS;TESTS;TEST_DEPS" ${ARGN})
  set(target podium_${A_NAME})
  add_library(${target} STATIC ${A_SOURCES})
  add_library(Podium::${A_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${A_NAME})
  # Outside, headers are <podium/...>: cmake/PodiumHeaders.cmake.
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src
    INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE podium_flags)
  foreach(dep ${A_DEPS})
    target_link_libraries(${target} PUBLIC podium_${dep})
  endforeach()
  target_link_libraries(${target} PRIVATE ${A_LINKS})
  if(PODIUM_UNITY AND A_ALIKE_NAMES)
    target_precompile_headers(${target} PRIVATE ${A_ALIKE_NAMES})
  elseif(PODIUM_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
  if(NOT A_FOR_TESTS)
    set_property(GLOBAL APPEND PROPERTY PODIUM_LIBRARIES ${target})
  endif()
  if(A_TESTS AND PODIUM_TESTS)
    set(compute)
    if(A_TESTS_COMPUTE)
      set(compute COMPUTES)
    endif()
    podium_test(NAME ${A_NAME}_test ${compute} SOURCES ${A_TESTS} DEPS ${A_NAME} ${A_TEST_DEPS} LINKS ${A_LINKS} LABELS quick)
  endif()
endfunction()

function(podium_program)
  cmake_parse_arguments(A "" "NAME" "SOURCES;DEPS;LINKS" ${ARGN})
  add_executable(${A_NAME} ${A_SOURCES})
  target_include_directories(${A_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${A_NAME} PRIVATE podium_flags ${A_LINKS})
  foreach(dep ${A_DEPS})
    target_link_libraries(${A_NAME} PRIVATE podium_${dep})
  endforeach()
  if(A_NAME STREQUAL "podium")  # the one that users type: build/podium
    set_target_properties(podium PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  endif()
endfunction()

function(podium_test)
  cmake_parse_arguments(A "COMPUTES;RANKS" "NAME;TIMEOUT;ENVIRONMENT" "SOURCES;DEPS;LINKS;LABELS" ${ARGN})
  if(NOT PODIUM_TESTS)
    return()
  endif()
  podium_program(NAME ${A_NAME} SOURCES ${A_SOURCES} DEPS ${A_DEPS} LINKS GTest::gtest GTest::gtest_main ${A_LINKS})
  if(NOT (A_COMPUTES AND PODIUM_SANITIZE))
    target_precompile_headers(${A_NAME} REUSE_FROM podium_test_header)
    target_compile_options(${A_NAME} PRIVATE ${PODIUM_COLD_OPTIONS})
  endif()
  if(PODIUM_UNITY)
    set_target_properties(${A_NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if("quick" IN_LIST A_LABELS)  # what scripts/sanitize.sh builds
    if(NOT TARGET quick_tests)
      add_custom_target(quick_tests)
    endif()
    add_dependencies(quick_tests ${A_NAME})
  endif()
  set(properties)
  if(A_ENVIRONMENT)
    set(properties ENVIRONMENT ${A_ENVIRONMENT})
  endif()
  if(A_RANKS)
    list(APPEND properties RESOURCE_LOCK ranks PROCESSORS 2 COST 1000)  # the longest row of tests begins first
  endif()
  gtest_discover_tests(${A_NAME} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "${A_LABELS}" ${properties})
endfunction()

function(podium_fuzz)
  cmake_parse_arguments(A "" "NAME;CORPUS;MOST_BYTES" "SOURCES;DEPS;LINKS" ${ARGN})
  if(NOT PODIUM_FUZZ)
    return()
  endif()
  podium_program(NAME ${A_NAME} SOURCES ${A_SOURCES} DEPS ${A_DEPS} LINKS ${A_LINKS})
  target_compile_options(${A_NAME} PRIVATE -fsanitize=fuzzer)
  target_link_options(${A_NAME} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzz_targets)
    add_custom_target(fuzz_targets)
  endif()
  add_dependencies(fuzz_targets ${A_NAME})
  if(NOT A_MOST_BYTES)
    set(A_MOST_BYTES 0)  # libFuzzer's own
  endif()
  # What scripts/fuzz.sh reads: one file a target, holding program, corpus and length.
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/fuzz/${A_NAME}.target
    CONTENT "$<TARGET_FILE:${A_NAME}>\n${CMAKE_CURRENT_SOURCE_DIR}/${A_CORPUS}\n${A_MOST_BYTES}\n")
endfunction()
