# Sourced by the other scripts: the root of the tree, how many jobs, and how to configure a build folder.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${PODIUM_JOBS:-$(nproc)}

say() { printf '\n== %s\n' "$*" >&2; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# configure FOLDER [cmake arguments]: quiet unless it fails.
configure() {
  local folder=$root/$1 log
  shift
  mkdir -p "$folder"
  log=$folder/configure.log
  if ! cmake -G Ninja -S "$root" -B "$folder" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    fail "configuring ${folder#"$root"/} failed; if a package was missing, scripts/install-dependencies.sh installs it"
  fi
}

# build FOLDER [targets]
build() {
  local folder=$root/$1
  shift
  cmake --build "$folder" --parallel "$jobs" ${1:+--target "$@"}
}
