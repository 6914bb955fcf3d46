#!/usr/bin/env bash
# How much faster two workers train than one, compared with two separate programs:
#
#   bench/scale.sh ROUNDS RECIPE STEPS
#
# Each round runs in turn: one worker, two workers, two processes of one worker each (each on its core), one worker. Ratios are of
# the 10th and 50th percentile of the step times; the last line is their median. If the two processes do not reach 2, other guests
# of the machine or its memory bandwidth limit any program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=$1
recipe=$2
steps=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

bench() { build/podium bench recipe "$recipe" --steps "$steps" --json "$@" 2>/dev/null; }
# times: the step times in JSON on standard input, in milliseconds: a tenth, half.
times() { sed -nE 's/.*"tenth": ?([0-9.eE+-]+), ?"median": ?([0-9.eE+-]+).*/\1 \2/p' | awk '{ print 1000 * $1, 1000 * $2 }'; }
median() { sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

for ((round = 1; round <= rounds; ++round)); do
  before=$(bench --workers 1 | times)
  two=$(bench --workers 2 | times)
  cores=()
  for core in 0 1; do
    (taskset -c "$core" build/podium bench recipe "$recipe" --steps "$steps" --json --workers 1 2>/dev/null | times >"$folder/$core") &
    cores+=($!)
  done
  wait "${cores[@]}"
  after=$(bench --workers 1 | times)
  echo "$before $after $two $(cat "$folder/0") $(cat "$folder/1")" | awk -v round="$round" '{
    for (k = 1; k <= 2; ++k) {
      one = 2 / (1 / $k + 1 / $(k + 2))
      workers[k] = one / $(k + 4); processes[k] = one / $(k + 6) + one / $(k + 8)
    }
    printf "round %d: %.2f and %.2f ms, two workers %.2f; ", round, $2, $4, $6 >"/dev/stderr"
    printf "workers %.3f %.3f, processes %.3f %.3f\n", workers[1], workers[2], processes[1], processes[2] >"/dev/stderr"
    print workers[1], workers[2], processes[1], processes[2]
  }' >>"$folder/ratios"
done
for column in 1 2 3 4; do cut -d' ' -f"$column" "$folder/ratios" | median >"$folder/median.$column"; done
echo "$recipe, times one worker: two workers $(cat "$folder/median.1") (fastest tenth) $(cat "$folder/median.2") (median);" \
  "two processes $(cat "$folder/median.3") $(cat "$folder/median.4")"
