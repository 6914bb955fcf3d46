#!/usr/bin/env bash
# Compiles the CUDA kernels for GPUs of several generations, and fails if one spills registers or has other floating-point
# operations than its contract. Needs nvcc and no GPU.
#
#   scripts/check-sass.sh                # compute capabilities 7.5, 8.0 and 9.0, which a program has code for by default
#   scripts/check-sass.sh 86 100         # these
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/install-dependencies.sh" build test sass
[[ -e $root/build/compile_commands.json ]] || configure build -DCMAKE_BUILD_TYPE=Release -DPODIUM_TESTS=ON
[[ $# -gt 0 ]] || set -- 75 80 90a
code=0
for arch in "$@"; do
  result=0
  python3 "$root/tests/cuda/check_sass.py" "$root/build" --nvdisasm "$sass_folder/nvdisasm" --arch "$arch" || result=$?
  [[ $result -eq 77 ]] && exit 0 # which says why
  [[ $result -eq 0 ]] || code=1
done
exit "$code"
