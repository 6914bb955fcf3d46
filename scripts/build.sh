#!/usr/bin/env bash
# Builds build/podium, installing what is missing first. Arguments go to cmake:
# scripts/build.sh -DCMAKE_BUILD_TYPE=RelWithDebInfo
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/install-dependencies.sh" build
# An existing build folder keeps its settings. A new one gets the settings that build the program fastest: no tests, and each
# folder of src/ compiled as one file.
settings=()
[[ -f $root/build/CMakeCache.txt ]] || settings=(-DPODIUM_TESTS=OFF -DPODIUM_UNITY=ON)
say "building build/podium"
configure build -DCMAKE_BUILD_TYPE=Release "${settings[@]}" "$@"
build build podium
[[ -x $root/build/podium ]] || fail "the build ended without build/podium"
