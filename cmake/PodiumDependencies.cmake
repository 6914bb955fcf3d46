# What the house stands on, each with the part that needs it. Debian's package is named beside it; the list that
# scripts/install-dependencies.sh installs is the same.
find_package(PkgConfig REQUIRED)                                     # pkg-config
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)               # libhwy-dev: backend/cpu
if(NOT PODIUM_CORE_ONLY)
  find_package(ZLIB REQUIRED)                                        # zlib1g-dev: data (gzip)
  find_package(CURL REQUIRED)                                        # libcurl4-openssl-dev: data (download)
  find_package(OpenSSL REQUIRED COMPONENTS Crypto)                   # libssl-dev: data (SHA-256)
  find_package(nlohmann_json 3.9 REQUIRED)                           # nlohmann-json3-dev: train, report
  find_package(Protobuf REQUIRED)                                    # libprotobuf-dev, protobuf-compiler: report
  find_package(fmt REQUIRED)                                         # libfmt-dev: report, cli
  find_package(spdlog REQUIRED)                                      # libspdlog-dev: cli
  find_package(CLI11 REQUIRED)                                       # libcli11-dev: cli
  find_package(LibArchive REQUIRED)                                  # libarchive-dev: data (archives)
  find_package(PNG REQUIRED)                                         # libpng-dev: data (pictures for predict)
  find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)             # libtomlplusplus-dev: train (recipes)
endif()
if(PODIUM_TESTS)
  find_package(GTest REQUIRED)                                       # libgtest-dev
  include(GoogleTest)
endif()
