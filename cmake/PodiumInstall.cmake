# What `cmake --install` lays down:
#   bin/podium                      the command
#   lib/libpodium_*.a               the libraries
#   include/podium/                 the headers of src/, so that includes read as they do here; podium.h has what a program of one's own needs
#   share/podium/recipes/           the recipes
#   lib/cmake/Podium/               find_package(Podium), which gives Podium::podium
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY PODIUM_LIBRARIES)
add_library(podium_all INTERFACE)
add_library(Podium::podium ALIAS podium_all)
set_target_properties(podium_all PROPERTIES EXPORT_NAME podium)
target_link_libraries(podium_all INTERFACE ${libraries})

install(TARGETS podium_all ${libraries} EXPORT PodiumTargets)
if(TARGET podium)
  install(TARGETS podium)
endif()
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/podium
  FILES_MATCHING PATTERN "*.h" PATTERN "*_test*.h" EXCLUDE PATTERN test_files.h EXCLUDE PATTERN corpus EXCLUDE)
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
