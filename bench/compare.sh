#!/usr/bin/env bash
# Compares the training speed of a recipe with that of other programs, in turn on the same machine:
#
#   [STEPS=1000] bench/compare.sh ROUNDS RECIPE 'COMMAND' ['COMMAND' ...]
#
# Each COMMAND trains the same recipe and prints a line of JSON with "images_per_s". In each round Podium (all cores)
# and every command run once, one after the other. The script prints each one's median and the median over the
# rounds of Podium's ratio to it, which is robust if the machine's speed drifts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=$1
recipe=$2
shift 2
steps=${STEPS:-1000}  # of ours in a round
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# field NAME: the number of that name in JSON on standard input, the last one there is.
field() { sed -nE "s/.*\"$1\": ?([0-9.eE+-]+).*/\1/p" | tail -n 1; }
median() { sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

for ((round = 1; round <= rounds; ++round)); do
  ours=$(build/podium bench recipe "$recipe" --steps "$steps" --json 2>/dev/null | field images_per_second)
  echo "$ours" >>"$folder/ours"
  line="round $round: podium $ours"
  number=0
  for command in "$@"; do
    number=$((number + 1))
    theirs=$(bash -c "$command" 2>/dev/null | field images_per_s)
    echo "$theirs" >>"$folder/$number"
    awk -v a="$ours" -v b="$theirs" 'BEGIN { print a / b }' >>"$folder/$number.ratio"
    line="$line, ($number) $theirs"
  done
  echo "$line" >&2
done

printf '%10.0f images/s  podium %s\n' "$(median <"$folder/ours")" "$recipe"
number=0
for command in "$@"; do
  number=$((number + 1))
  printf '%10.0f images/s  %5.2f times slower: %s\n' "$(median <"$folder/$number")" "$(median <"$folder/$number.ratio")" "$command"
done
