#!/usr/bin/env bash
# Builds build/podium with all that README.md shows, installing what is missing first: ranks by MPI, the backend for PJRT's
# plugins (TPUs), and that for NVIDIA GPUs where nvcc is. Further arguments go to cmake:
#
#   scripts/build.sh -DCMAKE_BUILD_TYPE=RelWithDebInfo
#   scripts/build.sh --minimal                           # without these three, and without what they need
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Of these parts each call decides anew, also where the folder exists.
parts=(-DPODIUM_MPI=AUTO -DPODIUM_PJRT=AUTO -DPODIUM_CUDA=AUTO)
if [[ ${1:-} == --minimal ]]; then
  shift
  parts=(-DPODIUM_MPI=OFF -DPODIUM_PJRT=OFF -DPODIUM_CUDA=OFF)
  "$root/scripts/install-dependencies.sh" build
else
  "$root/scripts/install-dependencies.sh" build mpi
  "$root/scripts/install-dependencies.sh" pjrt-header || say "without PJRT: its header could not be fetched"
fi
# An existing build folder keeps its settings. A new one gets the settings that build the program fastest: no tests, and each
# folder of src/ compiled as one file.
settings=()
[[ -f $root/build/CMakeCache.txt ]] || settings=(-DPODIUM_TESTS=OFF -DPODIUM_UNITY=ON)
say "building build/podium"
configure build -DCMAKE_BUILD_TYPE=Release "${settings[@]}" "${parts[@]}" "$@"
build build podium
[[ -x $root/build/podium ]] || fail "the build ended without build/podium"
