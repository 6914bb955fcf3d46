# What `cmake --install` lays down:
#   bin/podium                      the command
#   lib/libpodium_*.a               the libraries
#   include/podium/                 the public headers (PodiumHeaders.cmake); <podium/podium.h> has what most programs need
#   share/podium/recipes/           the recipes
#   lib/cmake/Podium/               find_package(Podium), which gives Podium::podium
include(CMakePackageConfigHelpers)
include(PodiumHeaders)

get_property(libraries GLOBAL PROPERTY PODIUM_LIBRARIES)
add_library(podium_all INTERFACE)
add_library(Podium::podium ALIAS podium_all)
set_target_properties(podium_all PROPERTIES EXPORT_NAME podium)
target_link_libraries(podium_all INTERFACE ${libraries})
target_include_directories(podium_all INTERFACE
  $<BUILD_INTERFACE:${PODIUM_HEADER_FOLDER}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_dependencies(podium_all podium_headers)

install(TARGETS podium_all ${libraries} EXPORT PodiumTargets)
if(TARGET podium)
  install(TARGETS podium)
  add_dependencies(podium podium_headers)  # so that what builds the program can install
endif()
install(DIRECTORY ${PODIUM_HEADER_FOLDER}/podium DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(EXISTS ${PROJECT_SOURCE_DIR}/recipes)
  install(DIRECTORY recipes/ DESTINATION ${CMAKE_INSTALL_DATADIR}/podium/recipes FILES_MATCHING PATTERN "*.toml")
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Podium)
install(EXPORT PodiumTargets NAMESPACE Podium:: DESTINATION ${config_dir})
configure_package_config_file(cmake/PodiumConfig.cmake.in ${PROJECT_BINARY_DIR}/generated/PodiumConfig.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/PodiumConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/PodiumConfig.cmake
  ${PROJECT_BINARY_DIR}/generated/PodiumConfigVersion.cmake DESTINATION ${config_dir})
