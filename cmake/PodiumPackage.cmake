# Packages, made by `cpack` in the build folder: a tarball of all that is installed, and two Debian packages.
#
#   podium           the command and its recipes; needs the shared libraries that dpkg-shlibdeps finds
#   libpodium-dev    headers, static libraries and find_package(Podium); needs the packages that find_package looks for
#
# They land in packages/ of the build folder. scripts/check-package.sh tries them in a bare system.
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME podium)
set(CPACK_PACKAGE_VENDOR "The Podium authors")
set(CPACK_PACKAGE_CONTACT "The Podium authors <podium@podium.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trainer of neural networks with reproducible results")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(CPACK_PACKAGE_FILE_NAME podium-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES TRUE)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)  # one tarball of both

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME podium)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS ca-certificates)  # for downloads
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "Podium trains neural networks from one program, without Python. The
result of a run is the same, bit for bit, for every number of workers
and threads, and after every interruption. On x86-64 it needs a
processor with AVX2.")

# The same list as in PodiumConfig.cmake.in, by the names of Debian.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpodium-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "podium (= ${PROJECT_VERSION}), pkgconf | pkg-config, libhwy-dev, zlib1g-dev, \
libcurl4-openssl-dev | libcurl4-gnutls-dev, libssl-dev, nlohmann-json3-dev, libprotobuf-dev, protobuf-compiler, \
libfmt-dev, libjpeg-dev, libpng-dev, libarchive-dev, libpcre2-dev, libsndfile1-dev, libexpat1-dev")
if(PODIUM_HAS_MPI)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libopenmpi-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Headers and static libraries of Podium, for C++ programs that define,
train and evaluate networks. CMake finds them by find_package(Podium).")
include(CPack)
