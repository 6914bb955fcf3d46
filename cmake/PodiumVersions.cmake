# The versions that Podium is known to work with, and podium_check_version(), which compares a found one with them. Finds
# nothing itself, so that tests/install/versions_test.cmake can include it alone. An older version ends the configuration and
# the message names the remedy. A newer one is used, and a line says so. docs/building.md has the same table (scripts/lint.sh
# compares them) and says where each version was tried.

set(PODIUM_VERSIONS
# name           | oldest | newest | Debian package
  "CMake         | 3.22   | 4.4    | cmake"
  "GNU           | 12     | 16     | g++"
  "Clang         | 14     | 22     | clang"
  "Highway       | 1.0.3  | 1.3    | libhwy-dev"
  "zlib          | 1.2.11 | 1.3    | zlib1g-dev"
  "curl          | 7.74   | 8.22   | libcurl4-openssl-dev"
  "OpenSSL       | 3.0    | 3.6    | libssl-dev"
  "expat         | 2.4    | 2.7    | libexpat1-dev"
  "libarchive    | 3.4    | 3.8    | libarchive-dev"
  "PCRE2         | 10.32  | 10.46  | libpcre2-dev"
  "libsndfile    | 1.0.31 | 1.2.2  | libsndfile1-dev"
  "libjpeg-turbo | 2.0.6  | 3.1    | libjpeg-dev"
  "libpng        | 1.6.37 | 1.6    | libpng-dev"
  "nlohmann-json | 3.9    | 3.11   | nlohmann-json3-dev"
  "toml++        | 3.0    | 3.4    | libtomlplusplus-dev"
  "protobuf      | 3.12   | 3.21   | libprotobuf-dev"
  "fmt           | 7.1    | 11.1   | libfmt-dev"
  "spdlog        | 1.8    | 1.15   | libspdlog-dev"
  "CLI11         | 2.1    | 2.6    | libcli11-dev"
  "MPI           | 3.1    | 5.0    | libopenmpi-dev"
  "PJRT          | 0.81   | 0.81   | -"
  "CUDA          | 12.0   | 13.0   | nvidia-cuda-toolkit"
  "nanobind      | 2.0    | 3.1    | -"
  "GoogleTest    | 1.10   | 1.17   | libgtest-dev")
option(PODIUM_ANY_VERSION "Build with dependencies older than Podium is known to work with" OFF)

# podium_check_version(NAME FOUND): FOUND is the version of NAME, a row of the table.
function(podium_check_version name found)
  foreach(row ${PODIUM_VERSIONS})
    string(REGEX REPLACE " *\\| *" ";" row "${row}")
    list(GET row 0 row_name)
    if(NOT row_name STREQUAL name)
      continue()
    endif()
    list(GET row 1 oldest)
    list(GET row 2 newest)
    list(GET row 3 package)
    if(NOT found)
      message(STATUS "${name}: its version is unknown; Podium is known to build with ${oldest} to ${newest}")
    elseif(found VERSION_LESS oldest)
      set(remedy "Install a newer one: on a newer Debian or Ubuntu it is the package ${package}")
      if(name STREQUAL "GNU" OR name STREQUAL "Clang")
        set(remedy "Install a newer compiler, such as g++-12 or clang-16, and name it: -DCMAKE_CXX_COMPILER=g++-12, in a new build folder")
      elseif(NOT name STREQUAL "CMake")
        string(APPEND remedy ", or build it from its source and name its prefix: -DCMAKE_PREFIX_PATH=DIR")
      endif()
      set(kind FATAL_ERROR)
      if(PODIUM_ANY_VERSION)
        set(kind WARNING)
      endif()
      message(${kind} "${name} ${found} is too old: Podium is known to work with ${oldest} or newer. ${remedy}. "
        "To try this one, which may fail: -DPODIUM_ANY_VERSION=ON. docs/building.md lists what works.")
    else()
      # 1.3.2 is not newer than 1.3.
      string(REGEX MATCHALL "[^.]+" parts "${newest}")
      list(LENGTH parts length)
      string(REGEX MATCHALL "[0-9]+" found_parts "${found}")
      list(SUBLIST found_parts 0 ${length} found_parts)
      string(REPLACE ";" "." shortened "${found_parts}")
      if(shortened VERSION_GREATER newest)
        message(STATUS "${name} ${found} is newer than ${newest}, the newest that Podium was tried with")
      endif()
    endif()
    return()
  endforeach()
  message(FATAL_ERROR "PODIUM_VERSIONS has no row ${name}")
endfunction()
