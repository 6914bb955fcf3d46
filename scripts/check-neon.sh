#!/usr/bin/env bash
# Builds the core (base to parallel) for ARM64 and runs its tests under qemu-user: NEON returns the same bits.
# A long check of about 35 minutes. Arguments go to ctest: scripts/check-neon.sh -R Conv
#
# Highway comes as Debian's ARM64 package, unpacked into build-neon/root (the machine's own packages stay as they are);
# GoogleTest is built from Debian's sources.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/install-dependencies.sh" build test neon
arm=$root/build-neon/root
mkdir -p "$root/build-neon/apt/lists/partial" "$root/build-neon/apt/cache/archives/partial"
if [[ ! -e $arm/usr/include/hwy/highway.h ]]; then
  say "unpacking Highway for ARM64"
  # A separate package database with ARM64 as an architecture.
  settings=(-o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::status=/dev/null
    -o Dir::State::lists="$root/build-neon/apt/lists" -o Dir::Cache="$root/build-neon/apt/cache")
  (cd "$root/build-neon/apt" && {
    apt-get "${settings[@]}" -qq update && apt-get "${settings[@]}" -qq download libhwy1:arm64 libhwy-dev:arm64
  }) >"$root/build-neon/apt.log" 2>&1 || { cat "$root/build-neon/apt.log" >&2 && fail "no ARM64 package of Highway"; }
  for package in "$root"/build-neon/apt/libhwy*.deb; do dpkg-deb -x "$package" "$arm"; done
fi
if [[ ! -e $arm/usr/lib/libgtest.a ]]; then
  say "building GoogleTest for ARM64"
  {
    cmake -G Ninja -S /usr/src/googletest -B "$root/build-neon/googletest" -DCMAKE_BUILD_TYPE=Release \
      -DBUILD_GMOCK=OFF -DCMAKE_TOOLCHAIN_FILE="$root/cmake/toolchain-aarch64.cmake" \
      -DCMAKE_INSTALL_PREFIX="$arm/usr" -DCMAKE_INSTALL_LIBDIR=lib &&
    cmake --build "$root/build-neon/googletest" --target install
  } >"$root/build-neon/googletest.log" 2>&1 ||
    { tail -n 30 "$root/build-neon/googletest.log" >&2 && fail "GoogleTest does not build for ARM64"; }
fi

say "building the core for ARM64"
export PKG_CONFIG_SYSROOT_DIR=$arm
export PKG_CONFIG_LIBDIR=$arm/usr/lib/aarch64-linux-gnu/pkgconfig
configure build-neon/core -DCMAKE_TOOLCHAIN_FILE="$root/cmake/toolchain-aarch64.cmake" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_FIND_ROOT_PATH="$arm" -DPODIUM_CORE_ONLY=ON -DPODIUM_TESTS=ON
# The emulator looks for shared libraries in one root: Highway is put beside the C library by its run path.
export QEMU_SET_ENV=LD_LIBRARY_PATH=$arm/usr/lib/aarch64-linux-gnu
build build-neon/core
say "running the core's tests under qemu-user"
cd "$root/build-neon/core"
# A death test restarts its own program, which does not work under the emulator; and of a signal the emulator says something, too.
exec ctest --output-on-failure --no-tests=error --parallel "$jobs" --timeout 1800 -E 'DeathTest|says_what_signal' "$@"
