#!/usr/bin/env bash
# The experiment of docs/results/tpu-gpu-puzzle.md: DavidNet with one batch-norm span and with eight, with weight decay once and
# once per replica, with larger decay and with smaller batches. Stopped runs are resumed.
#
#   scripts/puzzle.sh [EPOCHS [FOLDER]]     # 12 epochs, runs/puzzle-12; 24: the published schedule
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

epochs=${1:-12}
folder=${2:-$root/runs/puzzle-$epochs}
[[ $epochs =~ ^[1-9][0-9]*$ ]] || fail "usage: scripts/puzzle.sh [EPOCHS [FOLDER]]"
"$root/scripts/install-dependencies.sh" build
say "building"
configure build -DCMAKE_BUILD_TYPE=Release
build build podium
cp "$root/build/podium" "$root/build/podium-puzzle" # of these runs, whatever is built meanwhile

# The peak of the learning rate stands where it does in 24 epochs.
peak=$(awk "BEGIN { print 5 * $epochs / 24 }")
cores=$(nproc)
folders=()
cell() { # NAME key=value...
  local name=$1 threads=1
  shift
  [[ " $* " != *" replicas=1 "* ]] || threads=$cores
  say "$name"
  (cd "$root" && build/podium-puzzle train cifar10-davidnet "epochs=$epochs" "schedule.boundaries=[0, $peak, $epochs]" "$@" \
    --threads "$threads" --out "$folder/$name")
  folders+=("$folder/$name")
}
tpu=optimizer.weight_decay=1.25e-4
cell r8-per-replica $tpu optimizer.decay=per-replica
cell r8-once $tpu optimizer.decay=once
cell r1 replicas=1 $tpu optimizer.decay=once
cell r1-wd5e-4 replicas=1 optimizer.decay=once optimizer.weight_decay=5e-4
cell r1-wd1e-3 replicas=1 optimizer.decay=once optimizer.weight_decay=1e-3
cell r1-b128 replicas=1 $tpu optimizer.decay=once batch=128
cell r1-b64 replicas=1 $tpu optimizer.decay=once batch=64

"$root/build/podium-puzzle" compare "${folders[@]}" --plot "$folder/curves.svg" --force --title "DavidNet, $epochs epochs"
