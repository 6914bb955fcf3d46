#!/usr/bin/env bash
# Compiles the steps of recipes for TPUs, without needing one, and fails if a product of FP32 does not have the highest precision,
# a collective carries anything but integers, or the compiler counts FLOPs that differ by more than 2% from Podium's (which leaves
# out products with padding, as XLA does). Without arguments: every recipe on six topologies, which takes hours.
#
#   scripts/install-dependencies.sh tpu      # installing libtpu means accepting its terms
#   scripts/check-tpu.sh [RECIPE [TOPOLOGY...]]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

export PODIUM_PJRT_PLUGIN=${PODIUM_PJRT_PLUGIN:-$libtpu_folder/libtpu.so}
if [[ ! -e $PODIUM_PJRT_PLUGIN ]]; then
  echo "check-tpu.sh: skipped, because libtpu is not on this machine: scripts/install-dependencies.sh tpu" >&2
  exit 0
fi
podium=$root/build/podium
if [[ $# -gt 0 ]]; then recipes=("$1"); else mapfile -t recipes < <("$podium" recipes --json | sed -nE 's/.*"name": "([^"]+)".*/\1/p'); fi
topologies=("${@:2}")
[[ ${#topologies[@]} -gt 0 ]] || topologies=(v2:2x2 v3:2x2 v4:2x2x1 v5e:1x1 v5e:2x4 v6e:1x1)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
for recipe in "${recipes[@]}"; do
  # Steps on somebody's own pictures do not depend on how many there are.
  settings=()
  if grep -qsE '^path = ' "$root/recipes/$recipe.toml" && ! grep -q '^train_examples' "$root/recipes/$recipe.toml"; then
    settings=(train_examples=9469 test_examples=3925 data.classes=10)
  fi
  for topology in "${topologies[@]}"; do
    # One process per topology: libtpu fails on a second topology in one process.
    if ! "$podium" show "$recipe" "${settings[@]}" --compile-for "$topology" >"$log" 2>&1; then
      tail -n 3 "$log" >&2
      failed=1
    elif ! grep -qE '^precision of products +[0-9]+ highest$' "$log" ||
      ! grep -qE '^collectives +(none|([0-9]+ [a-z-]+ of u32(, )?)+)$' "$log" ||
      ! awk '$1 == "difference" { sub("%", "", $2); ok = $2 >= -2 && $2 <= 2 } END { exit !ok }' "$log"; then
      cat "$log" >&2
      failed=1
    fi
    printf '%s %s: %s\n' "$recipe" "$topology" "$(sed -nE 's/^(compiled in|work, as compiled|difference|peak memory|collectives) +//p' "$log" | paste -sd ' ')"
  done
done
exit "$failed"
