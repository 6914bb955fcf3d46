#!/usr/bin/env bash
# The long check of guarantee G2: kills a training run a thousand times with SIGKILL, resumes it each time under another
# placement, and compares it with the undisturbed run. It takes about 12 minutes; see docs/long-checks.md.
#
#   scripts/check-kills.sh [KILLS [SEED]]          # 1000 kills, seed 1; another seed kills at other moments
#   scripts/check-kills.sh --ranks [KILLS [SEED]]  # 200 kills of runs of several ranks, or of their launcher
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

test=(law/kill_test 'Kill.resumed*')
target=kill_test
if [[ ${1:-} == --ranks ]]; then
  test=(ranks/train_ranks_test '*killed_and_resumed*')
  target=train_ranks_test
  shift
  set -- "${1:-200}" "${@:2}"
fi
kills=${1:-1000}
seed=${2:-1}
[[ $kills =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ ]] || fail "usage: scripts/check-kills.sh [--ranks] [KILLS [SEED]]"
"$root/scripts/install-dependencies.sh" build test
say "building"
configure build -DCMAKE_BUILD_TYPE=Release -DPODIUM_TESTS=ON
build build podium $target
say "killing $kills times, seed $seed"
cd "$root"
PODIUM_KILLS=$kills PODIUM_KILL_SEED=$seed exec "build/tests/${test[0]}" --gtest_filter="${test[1]}"
