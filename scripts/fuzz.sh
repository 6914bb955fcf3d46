#!/usr/bin/env bash
# Builds the libFuzzer targets (in build-asan, with AddressSanitizer and UBSan) and runs each from its corpus.
#
#   scripts/fuzz.sh                        # 60 seconds each
#   scripts/fuzz.sh --seconds 5 --seed 1   # as for every change: the same inputs each time, as many as fit
#   scripts/fuzz.sh --seconds 600 --keep   # and add the inputs that reach new code to the corpus in the tree
#   scripts/fuzz.sh idx_fuzz               # only this target
#
# An input that crashes a reader ends the run; it is kept as build-asan/fuzz/NAME-crash-*.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seconds=60
seed=0 # a new one each time
keep=no
only=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds) seconds=${2:?--seconds takes a number} && shift ;;
    --seed) seed=${2:?--seed takes a number} && shift ;;
    --keep) keep=yes ;;
    -*) fail "unknown option $1; options are --seconds N, --seed N and --keep" ;;
    *) only+=("$1") ;;
  esac
  shift
done

"$root/scripts/install-dependencies.sh" build test "${PODIUM_CLANG:-fuzz}"
configure_asan
say "building the fuzz targets"
build build-asan fuzz_targets

# fuzz NAME PROGRAM CORPUS MOST_BYTES
fuzz() {
  local name=$1 program=$2 corpus=$3 most=$4 found=$root/build-asan/fuzz/$1-found log=$root/build-asan/fuzz/$1.log
  mkdir -p "$found" "$corpus"
  if ! "$program" -max_total_time="$seconds" -seed="$seed" -max_len="$most" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$root/build-asan/fuzz/$name-" "$found" "$corpus" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    return 1
  fi
  printf '%-24s %s inputs run\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" >&2
  if [[ $keep == yes ]]; then
    "$program" -merge=1 -max_len="$most" "$corpus" "$found" >>"$log" 2>&1
  fi
}

if [[ ${#only[@]} -eq 0 ]]; then
  for description in "$root"/build-asan/fuzz/*.target; do
    [[ -f $description ]] && only+=("$(basename "$description" .target)")
  done
fi
[[ ${#only[@]} -gt 0 ]] || fail "no fuzz target is built"

say "fuzzing ${only[*]}, $seconds s each"
running=()
for name in "${only[@]}"; do
  description=$root/build-asan/fuzz/$name.target
  [[ -f $description ]] || fail "no fuzz target $name"
  { read -r program && read -r corpus && read -r most; } <"$description"
  fuzz "$name" "$program" "$corpus" "$most" &
  running+=($!)
  if [[ ${#running[@]} -ge $jobs ]]; then
    wait "${running[0]}"
    running=("${running[@]:1}")
  fi
done
for pid in "${running[@]}"; do wait "$pid"; done
