#!/usr/bin/env bash
# Checks that the packages work on a minimal system: builds them in a minimal Debian, installs them in another one,
# trains there, and builds the examples against them. Needs root, debootstrap and a package mirror; 15 minutes on two cores.
#
#   scripts/check-package.sh                              # Debian 12
#   scripts/check-package.sh --suite trixie               # another release
#   scripts/check-package.sh --packages build-package/packages    # packages built before, on the same release
#
# The script packages the last commit.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# In the minimal system; the packages are in /packages.
inside() {
  local tried
  apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log >&2 && fail "apt-get $*"; }; }
  train() {
    tried=$(cd / && mktemp -d) && cd "$tried"
    "$1" recipes | grep -q glyphs || fail "$1 does not find its recipes"
    "$1" train glyphs epochs=1 --quiet
    "$1" eval runs/glyphs-seed0
  }
  apt update

  say "podium, by apt"
  apt install --no-install-recommends -y /packages/podium_*.deb
  if dpkg-query -f '${Package}\n' -W | grep -e '-dev$'; then fail "the program brought development packages"; fi
  train podium
  [[ -e /usr/share/man/man1/podium.1.gz ]] || fail "no manual page"
  bash -c 'source /usr/share/bash-completion/completions/podium && complete -p podium' || fail "no completion for bash"

  say "the tarball, unpacked elsewhere"
  apt remove -y podium
  mkdir "/opt/a place"
  tar -xzf /packages/podium-*.tar.gz -C "/opt/a place" --strip-components=1
  train "/opt/a place/bin/podium"

  say "libpodium-dev, by apt: the examples"
  apt install --no-install-recommends -y g++ cmake make /packages/podium_*.deb /packages/libpodium-dev_*.deb
  build_examples() {
    cmake -S "$root/examples" -B "$1" -DCMAKE_BUILD_TYPE=Release "${@:2}" >/tmp/cmake.log 2>&1 ||
      { cat /tmp/cmake.log >&2 && fail "find_package(Podium)"; }
    cmake --build "$1" --parallel "$jobs" >/tmp/build.log 2>&1 || { cat /tmp/build.log >&2 && fail "the examples"; }
    "$1/custom_model" 1
  }
  build_examples "$(mktemp -d)"
  say "the same from the tarball"
  apt remove -y podium libpodium-dev
  build_examples "$(mktemp -d)" -DCMAKE_PREFIX_PATH="/opt/a place"
}

suite=bookworm
packages=
while [[ $# -gt 0 ]]; do
  case $1 in
    --suite) suite=${2:?--suite takes a name} && shift ;;
    --packages) packages=$(realpath "${2:?--packages takes a folder}") && shift ;;
    --inside)
      inside
      exit
      ;;
    *) fail "unknown option $1; options are --suite NAME and --packages DIR" ;;
  esac
  shift
done

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
if [[ -z $packages ]]; then
  "$root/scripts/check-clean-root.sh" --suite "$suite" --root "$scratch/build" --keep scripts/package.sh
  packages=$scratch/build/podium/build-package/packages
fi
mkdir -p "$scratch/bare"
cp -r "$packages" "$scratch/bare/packages"
"$root/scripts/check-clean-root.sh" --suite "$suite" --root "$scratch/bare" --keep scripts/check-package.sh --inside
