#!/usr/bin/env bash
# Checks that the scripts need nothing except what they install: makes a minimal Debian (12, or the one given by --suite) in a
# folder, copies the tree into it, and runs a script there. Needs root, debootstrap and a package mirror; about 25 minutes on two cores.
#
#   scripts/check-clean-root.sh                                # scripts/test.sh
#   scripts/check-clean-root.sh scripts/quickstart.sh          # another command
#   scripts/check-clean-root.sh --suite trixie ...             # Debian 13; or forky, or another suite of the mirror
#   scripts/check-clean-root.sh --suite noble --mirror URL ...   # Ubuntu 24.04, from a mirror of Ubuntu; jammy is 22.04
#   scripts/check-clean-root.sh --root /srv/clean --keep ...   # use this folder and keep it (default: a temporary folder)
#   scripts/check-clean-root.sh --data ../shared/data ...      # with these data, for the tests that need them
#
# The script copies the last commit, and uses this machine's package sources.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

suite=bookworm
mirror=
clean=
data=
keep=no
while [[ ${1:-} == --* ]]; do
  case $1 in
    --root) clean=${2:?--root takes a folder} && shift ;;
    --suite) suite=${2:?--suite takes a name} && shift ;;
    --mirror) mirror=${2:?--mirror takes an address} && shift ;;
    --data) data=$(realpath "${2:?--data takes a folder}") && shift ;;
    --keep) keep=yes ;;
    *) fail "unknown option $1; options are --root DIR, --suite NAME, --mirror URL, --data DIR and --keep" ;;
  esac
  shift
done
[[ $# -gt 0 ]] || set -- scripts/test.sh
[[ $(id -u) -eq 0 ]] || fail "debootstrap and chroot need root"
command -v debootstrap >/dev/null || fail "needs debootstrap: apt-get install debootstrap"
[[ -n $clean ]] || { clean=$(mktemp -d) && chmod 755 "$clean"; } # tests that give up being root read there

# The chroot's mounts are in their own mount namespace, so removing them cannot remove files of this machine.
trap '[[ $keep == yes ]] || rm -rf --one-file-system "$clean" "$clean.log"' EXIT

if [[ ! -e $clean/etc/debian_version ]]; then
  say "debootstrap $suite"
  # The first mirror that apt uses here, in either form of its sources.
  [[ -n $mirror ]] || mirror=$(sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1 || true)
  # An older debootstrap has no script for a newer release; all of Debian's are the same, and all of Ubuntu's, where a part of
  # what is needed is in another component.
  script=""
  components=main
  keys=()
  case $mirror in *ubuntu*) components=main,universe newest=jammy keys=(--no-check-gpg) ;; *) newest=sid ;; esac
  [[ -e /usr/share/debootstrap/scripts/$suite ]] || script=$newest
  [[ -z $script || -n $mirror ]] || fail "debootstrap does not know $suite, and apt uses no mirror here that could have it"
  debootstrap --variant=minbase --components="$components" ${keys[0]+"${keys[@]}"} "$suite" "$clean" ${mirror:+"$mirror"} ${script:+"$script"} >"$clean.log" 2>&1 ||
    { tail -n 20 "$clean.log" >&2 && fail "debootstrap failed"; }
  # How packages are reached from this machine: proxies, certificates, names.
  grep -lE '^ *Acquire' /etc/apt/apt.conf.d/* 2>/dev/null | xargs -r cp -t "$clean/etc/apt/apt.conf.d"
  cp /etc/resolv.conf /etc/hosts "$clean/etc/"
fi
say "copying the last commit"
rm -rf "$clean/podium" && mkdir "$clean/podium"
git -C "$root" archive HEAD | tar -C "$clean/podium" -xf -
say "in the clean root: $*"
start=$SECONDS
# shellcheck disable=SC2016  # the inner shells expand these
unshare --mount --propagation private bash -c '
  clean=$1 data=$2 && shift 2
  # Where Podium looks for data: ../shared/data.
  if [[ -n $data ]]; then
    mkdir -p "$clean/shared/data" && mount --bind "$data" "$clean/shared/data" &&
      mount -o remount,bind,ro "$clean/shared/data" || exit
  fi
  mkdir -p "$clean/dev/shm" "$clean/dev/pts" && mount -t proc proc "$clean/proc" &&
    mount -t tmpfs tmpfs "$clean/dev/shm" && mount -t devpts -o ptmxmode=666 devpts "$clean/dev/pts" || exit
  exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    chroot "$clean" /bin/bash -c "cd /podium && exec \"\$@\"" bash "$@"' bash "$clean" "$data" "$@"
say "passed in $((SECONDS - start)) s, with $(chroot "$clean" dpkg-query -f '.\n' -W | wc -l) packages"
