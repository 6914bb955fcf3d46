# podium_version.h: PODIUM_VERSION ("0.1.0"), PODIUM_COMMIT ("5ee8038", "5ee8038+" where files differ from it,
# "unknown" outside a checkout) and PODIUM_DATE ("2026-11-25", the commit's; empty outside a checkout). A library that
# includes it says LINKS podium_version. The header is looked at in every build and written only when it changes, so that
# a commit recompiles only the files that include it.
add_custom_target(podium_version_header
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D VERSION=${PROJECT_VERSION}
    -D OUTPUT=${PROJECT_BINARY_DIR}/generated/version/podium_version.h -P ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/version/podium_version.h
  COMMENT "" VERBATIM)
add_library(podium_version INTERFACE)
target_include_directories(podium_version INTERFACE $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated/version>)
add_dependencies(podium_version podium_version_header)
install(TARGETS podium_version EXPORT PodiumTargets)
