#!/usr/bin/env bash
# Builds build/podium, installing what is missing first. Arguments go to cmake:
# scripts/build.sh -DCMAKE_BUILD_TYPE=RelWithDebInfo
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/install-dependencies.sh" build
# Without tests, unless the folder already has them: then a later build.sh does not throw them away.
tests=()
[[ -f $root/build/CMakeCache.txt ]] || tests=(-DPODIUM_TESTS=OFF)
say "building build/podium"
configure build -DCMAKE_BUILD_TYPE=Release "${tests[@]}" "$@"
build build podium
[[ -x $root/build/podium ]] || fail "the build ended without build/podium"
