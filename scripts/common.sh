# Sourced by the other scripts: the root of the tree, how many jobs, and how to configure a build folder.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${PODIUM_JOBS:-$(nproc)}

# Not Debian's: from 22 on clang-tidy leaves the headers of the system alone, which takes half of the time or less.
clang_tidy_version=23.1.4
clang_tidy_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/clang-tidy-$clang_tidy_version
# shellcheck disable=SC2034 # read by the scripts that source this
clang_tidy=${PODIUM_CLANG_TIDY:-$clang_tidy_folder/clang_tidy/data/bin/clang-tidy}

# Looks at the Dockerfile.
hadolint_version=2.15.1
hadolint_folder=${XDG_CACHE_HOME:-$HOME/.cache}/podium/hadolint-$hadolint_version
# shellcheck disable=SC2034 # read by the scripts that source this
hadolint=${PODIUM_HADOLINT:-$hadolint_folder/bin/hadolint}

say() { printf '\n== %s\n' "$*" >&2; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# configure FOLDER [cmake arguments]: quiet unless it fails. PODIUM_WERROR=ON in the environment, which .ci/run sets, makes
# warnings errors.
configure() {
  local folder=$root/$1 log
  shift
  mkdir -p "$folder"
  log=$folder/configure.log
  if ! cmake -G Ninja -S "$root" -B "$folder" ${PODIUM_WERROR:+-DPODIUM_WERROR="$PODIUM_WERROR"} "$@" >"$log" 2>&1; then
    cat "$log" >&2
    fail "configuring ${folder#"$root"/} failed; if a package was missing, scripts/install-dependencies.sh installs it"
  fi
}

# clang 14 where it is installed, else the distribution's own: the groups tidy and fuzz of install-dependencies.sh.
clang_program() { if command -v clang++-14 >/dev/null; then echo clang++-14; else echo clang++; fi; }

# The folder of the address and undefined-behaviour sanitizers, which the fuzz targets share.
configure_asan() {
  configure build-asan -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DPODIUM_TESTS=ON -DPODIUM_WERROR=ON \
    -DPODIUM_SANITIZE=address,undefined -DCMAKE_CXX_COMPILER="$(clang_program)" -DPODIUM_FUZZ=ON
}

# build FOLDER [targets]
build() {
  local folder=$root/$1
  shift
  cmake --build "$folder" --parallel "$jobs" ${1:+--target "$@"}
}
