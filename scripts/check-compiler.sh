#!/usr/bin/env bash
# Builds Podium with another compiler than the machine's default, with each folder of src/ as one file (PODIUM_UNITY), which tests
# that option too. Code outside the kernels is not optimised.
#
#   scripts/check-compiler.sh clang-22             # the program and the benchmarks, as for every change
#   scripts/check-compiler.sh clang-22 --tests     # and the tests
#   scripts/check-compiler.sh clang-22 --golden    # the program; the first steps of every recipe must have the golden hashes
#                                                  # (recipes whose data are not on this machine are skipped)
#
# The compiler is named by its Debian package, which is installed if missing. With PODIUM_WERROR=ON, warnings are errors.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage="usage: scripts/check-compiler.sh g++-N|clang-N [--tests|--golden]"
compiler=${1:-}
[[ $compiler =~ ^(g\+\+|clang)-[0-9]+$ && $# -le 2 ]] || fail "$usage"
settings=(-DPODIUM_BENCH=ON -DPODIUM_TESTS=OFF)
targets=()
case ${2:-} in
  "") ;;
  --tests) settings=(-DPODIUM_BENCH=ON -DPODIUM_TESTS=ON) ;;
  --golden)
    settings=(-DPODIUM_TESTS=ON)
    targets=(podium law_test)
    ;;
  *) fail "$usage" ;;
esac
"$root/scripts/install-dependencies.sh" build test "$compiler"
# An older g++ has its own libstdc++.so, which lacks symbols that the system's libraries need.
libraries=()
[[ $compiler == clang-* ]] || libraries=(-DCMAKE_CXX_STANDARD_LIBRARIES=-l:libstdc++.so.6)
folder=build-$compiler
say "building with $compiler"
configure "$folder" -DCMAKE_CXX_COMPILER="${compiler/clang-/clang++-}" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
  -DPODIUM_UNITY=ON "${libraries[@]}" "${settings[@]}"
build "$folder" "${targets[@]}" | tee "$root/$folder/build.log"
say "warnings: $(grep -c ' warning: ' "$root/$folder/build.log" || true)"
if [[ ${2:-} == --golden ]]; then
  cd "$root"
  "$folder/tests/law/law_test" --gtest_filter='FirstSteps*:*GoldenHashes*'
fi
