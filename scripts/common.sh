# Sourced by the other scripts: the root of the tree, how many jobs, and how to configure a build folder.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${PODIUM_JOBS:-$(nproc)}

# Not Debian's: from version 22 on, clang-tidy skips system headers, which at least halves its time.
clang_tidy_version=23.1.4
clang_tidy_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/clang-tidy-$clang_tidy_version
# shellcheck disable=SC2034 # read by the scripts that source this
clang_tidy=${PODIUM_CLANG_TIDY:-$clang_tidy_folder/clang_tidy/data/bin/clang-tidy}

# Checks the Dockerfile.
hadolint_version=2.15.1
hadolint_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/hadolint-$hadolint_version
# shellcheck disable=SC2034 # read by the scripts that source this
hadolint=${PODIUM_HADOLINT:-$hadolint_folder/bin/hadolint}

# Where install-dependencies.sh builds Highway if the system's version is too old.
# shellcheck disable=SC2034 # read by the scripts that source this
highway_version=1.2.0
highway_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/highway-$highway_version
# The headers of toml++, where the distribution has no package of them.
tomlplusplus_version=3.4.0
tomlplusplus_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/tomlplusplus-$tomlplusplus_version

# The header of PJRT's C API, and XLA's CPU plugin, on which the backend pjrt is tested. cmake/PodiumDependencies.cmake looks
# into these folders.
# shellcheck disable=SC2034 # read by the scripts that source this
pjrt_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/pjrt-1
# shellcheck disable=SC2034
libtpu_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/libtpu-0.0.52

# A virtual environment with what the Python module is built and tried with, and a wheel made with.
# shellcheck disable=SC2034
python_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/python-1

# Disassemblers of NVIDIA GPUs' code, which Debian lacks and a CUDA toolkit may: tests/cuda/CMakeLists.txt looks here.
# shellcheck disable=SC2034
sass_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/sass-13

say() { printf '\n== %s\n' "$*" >&2; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# oldest NAME: of a row of the table of versions. too_old NAME VERSION: whether VERSION is older, or there is none.
oldest() { sed -nE "s/^ *\"$1 *\| *([0-9.]+) .*/\1/p" "$root/cmake/PodiumVersions.cmake"; }
too_old() { [[ $(printf '%s\n' "$2" "$(oldest "$1")" | sort -V | head -n 1) != "$(oldest "$1")" ]]; }

# Whether the compiler that CMake would choose is a gcc that is too old: Ubuntu 22.04 has gcc 11. newer_compiler then names
# another installed compiler.
compiler_too_old() {
  [[ -z ${CXX:-} ]] && command -v c++ >/dev/null && ! c++ --version | grep -q clang && too_old GNU "$(c++ -dumpfullversion)"
}
newer_compiler() {
  local version
  for version in {12..16}; do
    if command -v "g++-$version" >/dev/null && ! too_old GNU "$version"; then echo "g++-$version" && return; fi
  done
}
highway_too_old() { too_old Highway "$(pkg-config --modversion libhwy 2>/dev/null)"; }

# The folders of what install-dependencies.sh built because the distribution lacks it, separated by semicolons.
own_folders() {
  local own=()
  if [[ -d $highway_folder ]] && highway_too_old; then own+=("$highway_folder"); fi
  if [[ -d $tomlplusplus_folder && ! -e /usr/include/toml++/toml.h ]]; then own+=("$tomlplusplus_folder"); fi
  (IFS=';' && echo "${own[*]}")
}

# configure FOLDER [cmake arguments]: quiet unless it fails. PODIUM_WERROR=ON in the environment, which .ci/run sets, makes
# warnings errors.
configure() {
  local folder=$root/$1 log
  shift
  mkdir -p "$folder"
  log=$folder/configure.log
  if [[ ! -f $folder/CMakeCache.txt && $* != *-DCMAKE_CXX_COMPILER=* ]] && compiler_too_old; then
    local compiler
    compiler=$(newer_compiler)
    set -- ${compiler:+-DCMAKE_CXX_COMPILER="$compiler"} "$@"
  fi
  if [[ $* != *-DCMAKE_PREFIX_PATH=* ]]; then
    local own
    own=$(own_folders)
    if [[ -n $own ]]; then set -- -DCMAKE_PREFIX_PATH="$own" "$@"; fi
  fi
  # The programs of sanitizers are large; this linker, where it is installed, takes a fraction of the time.
  if [[ $* == *-DPODIUM_SANITIZE=* ]] && command -v ld.lld >/dev/null; then
    set -- -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld "$@"
  fi
  if ! cmake -G Ninja -S "$root" -B "$folder" ${PODIUM_WERROR:+-DPODIUM_WERROR="$PODIUM_WERROR"} "$@" >"$log" 2>&1; then
    cat "$log" >&2
    fail "configuring ${folder#"$root"/} failed; if a package was missing, scripts/install-dependencies.sh installs it"
  fi
}

# clang 14 where it is installed, else the distribution's own: the groups tidy and fuzz of install-dependencies.sh. PODIUM_CLANG in the
# environment ("clang-22", a package) is another one.
clang_program() {
  if [[ -n ${PODIUM_CLANG:-} ]]; then
    echo "${PODIUM_CLANG/clang-/clang++-}"
  elif command -v clang++-14 >/dev/null; then echo clang++-14; else echo clang++; fi
}

# The folder of the address and undefined-behaviour sanitizers, which the fuzz targets share.
configure_asan() {
  configure build-asan -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DPODIUM_TESTS=ON -DPODIUM_WERROR=ON \
    -DPODIUM_UNITY=ON -DPODIUM_SANITIZE=address,undefined -DCMAKE_CXX_COMPILER="$(clang_program)" -DPODIUM_FUZZ=ON
}

# build FOLDER [targets]
build() {
  local folder=$root/$1
  shift
  cmake --build "$folder" --parallel "$jobs" ${1:+--target "$@"}
}
