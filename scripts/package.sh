#!/usr/bin/env bash
# Makes the packages for this machine's distribution in build-package/packages: podium and libpodium-dev as .deb, and a
# tarball. docs/installing.md lists their contents.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/install-dependencies.sh" build package
configure build-package -DCMAKE_BUILD_TYPE=Release -DPODIUM_TESTS=OFF
build build-package
cd "$root/build-package"
rm -rf packages
cpack >cpack.log 2>&1 || { cat cpack.log >&2 && fail "cpack failed"; }
rm -rf packages/_CPack_Packages
ls -l packages
