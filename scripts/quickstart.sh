#!/usr/bin/env bash
# From a fresh machine to a trained network: installs what is missing, builds, trains, evaluates.
# On a bare Debian 12, this took 4.4 minutes on two cores busy with other work (4.6 minutes of processor time), most of it the
# build. `--minimal` goes to scripts/build.sh, further arguments to `podium train`: scripts/quickstart.sh seed=3
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

minimal=()
if [[ ${1:-} == --minimal ]]; then
  minimal=(--minimal)
  shift
fi
"$root/scripts/build.sh" "${minimal[@]}"
cd "$root"

recipe=mnist
if ! build/podium data verify mnist >/dev/null 2>&1; then
  say "MNIST is not on this machine; downloading it (11 MB)"
  if ! build/podium data fetch mnist || ! build/podium data verify mnist >/dev/null 2>&1; then
    say "MNIST can be neither found nor downloaded here; training on glyphs, digits that Podium generates itself"
    recipe=glyphs
  fi
fi

out=runs/quickstart-$recipe
say "build/podium train $recipe --out $out $*"
build/podium train "$recipe" --out "$out" "$@"
say "build/podium eval $out"
build/podium eval "$out"

cat >&2 <<END

The network is in $out. Commands to try next:
  build/podium train $recipe seed=2 --out runs/b      the same recipe with another seed
  build/podium train $recipe --workers 1 --out runs/c  on one core: slower, the same bits
  build/podium diff $out runs/c                       compares the two, step by step
  build/podium show $recipe                            the resolved recipe
  build/podium devices                                what this machine and this build can compute on
  build/podium --help                                 every command
END
