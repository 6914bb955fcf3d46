# What `cmake --install` lays down, in two components:
#   program
#     bin/podium                      the command
#     share/podium/recipes/           the recipes, which the command finds relative to itself
#     share/podium/prices/, devices/  the prices and devices, in the same way
#     share/podium/convergence/       the bands of the recipes, in the same way
#     share/man/man1/podium.1, share/bash-completion/, share/zsh/    written by the command itself
#     share/doc/podium/               the licence
#   development
#     lib/libpodium_*.a               the libraries
#     include/podium/                 the public headers (PodiumHeaders.cmake); <podium/podium.h> has what most programs need
#     lib/cmake/Podium/               find_package(Podium), which gives Podium::podium
# All of it may be moved to another place. PodiumPackage.cmake makes packages of it.
include(CMakePackageConfigHelpers)
include(PodiumHeaders)

get_property(libraries GLOBAL PROPERTY PODIUM_LIBRARIES)
list(REMOVE_ITEM libraries podium_cli)  # the command's own
add_library(podium_all INTERFACE)
add_library(Podium::podium ALIAS podium_all)
set_target_properties(podium_all PROPERTIES EXPORT_NAME podium)
target_link_libraries(podium_all INTERFACE ${libraries})
target_include_directories(podium_all INTERFACE
  $<BUILD_INTERFACE:${PODIUM_HEADER_FOLDER}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_dependencies(podium_all podium_headers)

# What a plugin is compiled with (PodiumPlugin.cmake): the headers alone, and arithmetic as the contracts have it.
add_library(podium_plugin_headers INTERFACE)
add_library(Podium::headers ALIAS podium_plugin_headers)
set_target_properties(podium_plugin_headers PROPERTIES EXPORT_NAME headers)
target_compile_features(podium_plugin_headers INTERFACE cxx_std_20)
target_compile_options(podium_plugin_headers INTERFACE -ffp-contract=off)
target_include_directories(podium_plugin_headers INTERFACE
  $<BUILD_INTERFACE:${PODIUM_HEADER_FOLDER}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_dependencies(podium_plugin_headers podium_headers)

if(TARGET podium)
  add_dependencies(podium podium_headers)  # so that what builds the program can install
  install(TARGETS podium COMPONENT program)
  install(DIRECTORY recipes/ DESTINATION ${CMAKE_INSTALL_DATADIR}/podium/recipes COMPONENT program
    FILES_MATCHING PATTERN "*.toml")
  foreach(folder prices devices)
    install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/podium/${folder} COMPONENT program
      FILES_MATCHING PATTERN "*.toml")
  endforeach()
  install(DIRECTORY docs/convergence/ DESTINATION ${CMAKE_INSTALL_DATADIR}/podium/convergence COMPONENT program
    FILES_MATCHING PATTERN "*.json")
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/podium COMPONENT program)
  # The program of another kind of machine cannot be asked.
  if(NOT CMAKE_CROSSCOMPILING)
    install(CODE "set(podium_program $<TARGET_FILE:podium>)\nset(podium_data ${CMAKE_INSTALL_DATADIR})\nset(podium_man ${CMAKE_INSTALL_MANDIR})"
      COMPONENT program)
    install(SCRIPT cmake/install_texts.cmake COMPONENT program)
  endif()
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Podium)
install(TARGETS podium_all podium_plugin_headers ${libraries} EXPORT PodiumTargets COMPONENT development)
install(DIRECTORY ${PODIUM_HEADER_FOLDER}/podium DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT PodiumTargets NAMESPACE Podium:: DESTINATION ${config_dir} COMPONENT development)
configure_package_config_file(cmake/PodiumConfig.cmake.in ${PROJECT_BINARY_DIR}/generated/PodiumConfig.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/PodiumConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/PodiumConfig.cmake
  ${PROJECT_BINARY_DIR}/generated/PodiumConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/PodiumPlugin.cmake DESTINATION ${config_dir} COMPONENT development)

if(PROJECT_IS_TOP_LEVEL AND TARGET podium)
  include(PodiumPackage)
endif()
