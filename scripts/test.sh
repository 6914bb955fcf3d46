#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test except the long ones. Arguments go to ctest:
# scripts/test.sh -R conv2d. The long ones: scripts/test.sh --long
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

choice=(-LE '^long$')
if [[ ${1:-} == --long ]]; then
  choice=(-L '^long$')
  shift
fi
"$root/scripts/install-dependencies.sh" build test mpi
"$root/scripts/install-dependencies.sh" pjrt || say "without PJRT: its tests are left out or skipped"
if command -v nvcc >/dev/null; then
  "$root/scripts/install-dependencies.sh" sass || say "without disassemblers of GPU code: a test is skipped"
fi
python=(-DPODIUM_PYTHON=OFF)
if "$root/scripts/install-dependencies.sh" python; then
  python=(-DPODIUM_PYTHON=ON "-DPython_EXECUTABLE=$python_folder/bin/python")
else
  say "without Python: the tests of its module are left out"
fi
say "building the tests and benchmarks"
# Where all is built anew, each folder as one file: half of the time.
configure build -DCMAKE_BUILD_TYPE=Release -DPODIUM_TESTS=ON -DPODIUM_BENCH=ON "${python[@]}" ${CI:+-DPODIUM_UNITY=ON}
build build
say "running the tests"
cd "$root/build"
# One more than there are cores: some tests wait for processes or for a time that passes.
exec ctest --output-on-failure --no-tests=error --parallel $((jobs + 1)) "${choice[@]}" "$@"
