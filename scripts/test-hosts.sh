#!/usr/bin/env bash
# Runs podium across hosts that are network namespaces of this machine, joined by a bridge: the hashes must be those of one process,
# and a host that is lost must end the run in time, with its name. Needs root, Open MPI, ip (iproute2), and tc for slow links.
#
#   scripts/test-hosts.sh             # 2, 3 and 4 hosts, all cases
#   scripts/test-hosts.sh --quick     # one run on 2 hosts, and one on 3 of which one is lost
#   scripts/test-hosts.sh PROGRAM     # another podium than build/podium
#
# Exit code 77 where namespaces are not to be had.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

quick=no
if [[ ${1:-} == --quick ]]; then
  quick=yes
  shift
fi
podium=${1:-$root/build/podium}
[[ -x $podium ]] || fail "needs build/podium: scripts/build.sh"
skip() { echo "skipped: $*" && exit 77; }
[[ $(id -u) -eq 0 ]] || skip "network namespaces need root"
command -v ip >/dev/null || skip "no ip: install iproute2"
command -v mpirun >/dev/null || skip "no mpirun: scripts/install-dependencies.sh mpi"
ip netns add podium-try 2>/dev/null || skip "this system allows no network namespaces"
ip netns del podium-try

work=$(mktemp -d)
timeout=8
hosts=4
bridge="podium-br"
remove_hosts() {
  set +e
  for i in $(seq "$hosts"); do
    ip netns pids "podium-h$i" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
    ip netns del "podium-h$i" 2>/dev/null
    ip link del "podium-v$i" 2>/dev/null
  done
  ip link del $bridge 2>/dev/null
  set -e
}
remove_hosts # of a run that was killed
trap 'remove_hosts; rm -rf --one-file-system "$work"' EXIT

# A bridge that this machine has an address on, and hosts 10.99.7.11, .12, ... behind it.
ip link add $bridge type bridge
ip addr add 10.99.7.1/24 dev $bridge
ip link set $bridge up
for i in $(seq "$hosts"); do
  ip netns add "podium-h$i"
  ip link add "podium-v$i" type veth peer name eth0 netns "podium-h$i"
  ip link set "podium-v$i" master $bridge up
  ip -n "podium-h$i" addr add "10.99.7.1$i/24" dev eth0
  ip -n "podium-h$i" link set eth0 up
  ip -n "podium-h$i" link set lo up
done

# In place of ssh: HOST COMMAND.
cat >"$work/agent" <<'AGENT'
#!/bin/bash
host=$1
shift
exec ip netns exec "$host" unshare --uts bash -c "hostname $host; $*"
AGENT
chmod +x "$work/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Open MPI's launcher must find out that a host is gone before Podium's ranks do: it stops probing a connection on which it has sent
# something.
# run_on HOSTS RANKS_EACH OUT ARGUMENTS: podium train on the first so many hosts.
run_on() {
  local count=$1 each=$2 out=$3 list="" i
  shift 3
  for i in $(seq "$count"); do list+="${list:+,}podium-h$i:$each"; done
  mpirun --mca plm_rsh_agent "$work/agent" --mca btl_tcp_if_include 10.99.7.0/24 --mca oob_tcp_if_include 10.99.7.0/24 \
    --mca oob_tcp_keepalive_time 3 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 \
    --mca btl tcp,self --mca hwloc_base_binding_policy none --oversubscribe --host "$list" -n $((count * each)) \
    "$podium" train "$@" --out "$out" --workers 1 --rank-timeout $timeout --quiet
}

failed=0
report() { # NAME RESULT DETAIL
  printf '%-44s %-6s %s\n' "$1" "$2" "$3"
  [[ $2 == ok ]] || failed=1
}

recipe=(glyphs train_examples=1920 test_examples=200 batch=128 replicas=8 epochs=4 run.hash_every_steps=1)
"$podium" train "${recipe[@]}" --out "$work/alone" --quiet >/dev/null

# same_hashes NAME HOSTS RANKS_EACH [REFERENCE ARGUMENTS...]
same_hashes() {
  local name=$1 out start=$SECONDS
  out=$work/$(tr -c 'a-z0-9\n' - <<<"$name")
  local reference=${4:-$work/alone} arguments=("${@:5}")
  [[ ${#arguments[@]} -gt 0 ]] || arguments=("${recipe[@]}")
  if run_on "$2" "$3" "$out" "${arguments[@]}" >"$work/log" 2>&1 && cmp -s "$out/hashes.jsonl" "$reference/hashes.jsonl"; then
    report "$name" ok "$(wc -l <"$out/hashes.jsonl") equal hashes, $((SECONDS - start)) s"
  else
    report "$name" FAILED "$(tail -n 3 "$work/log" | tr '\n' ' ')"
  fi
}

# on_ranks_of_host3 COMMAND...: with each of its process numbers. From the commands of lost().
# shellcheck disable=SC2317
on_ranks_of_host3() {
  local process
  for process in $(ip netns pids podium-h3); do
    [[ $(cat "/proc/$process/comm" 2>/dev/null) != podium ]] || "$@" "$process"
  done
}

# lost NAME COMMAND PATTERN: during a long run on 3 hosts, COMMAND loses host 3.
lost() {
  local name=$1 out struck code=0
  out=$work/$(tr -c 'a-z0-9\n' - <<<"$name")
  run_on 3 1 "$out" "${recipe[@]}" epochs=100000 evaluation.every_epochs=0 run.checkpoint_every_steps=50 >"$work/log" 2>&1 &
  local launcher=$!
  for _ in $(seq 300); do
    [[ ! -d $out/checkpoints/step-00000100 ]] || break
    sleep 0.1
  done
  struck=$SECONDS
  eval "$2"
  wait $launcher || code=$?
  local seconds=$((SECONDS - struck)) left
  sleep 1
  left=$(for i in $(seq "$hosts"); do ip netns pids "podium-h$i"; done | wc -l)
  ip -n podium-h3 link set eth0 up 2>/dev/null || true
  ip link set podium-v3 up
  local said
  # Where all processes of a host are gone, the launcher's too, it is mpirun that says so.
  said=$(grep -m 1 -E '^podium: rank' "$work/log" || grep -m 1 -i 'remote daemon *:' "$work/log" || true)
  if [[ $code -ne 0 && $seconds -le $((timeout + 5)) && $left -eq 0 && $said =~ $3 ]]; then
    report "$name" ok "exit code $code after $seconds s: ${said#podium: }"
  else
    report "$name" FAILED "exit code $code, $seconds s, $left processes left, said: $said"
  fi
}

if [[ $quick == yes ]]; then
  same_hashes "2 hosts" 2 1
  lost "a host whose ranks are killed" "on_ranks_of_host3 kill -KILL" 'rank 2 on host podium-h3, step [0-9]+.*killed'
  exit $failed
fi
for count in 2 3 4; do same_hashes "$count hosts of one rank" "$count" 1; done
same_hashes "2 hosts of two ranks" 2 2
lost "a host whose ranks are killed" "on_ranks_of_host3 kill -KILL" 'rank 2 on host podium-h3, step [0-9]+.*killed'
lost "a host that loses all processes" "ip netns pids podium-h3 | xargs -r kill -KILL" 'podium-h3'
lost "a host whose link is down" "ip link set podium-v3 down" 'podium-h3'
lost "a host whose ranks are stopped" "on_ranks_of_host3 kill -STOP" 'rank 2 on host podium-h3, step [0-9]+'
if command -v tc >/dev/null; then
  for rate in 1gbit 100mbit; do
    for i in $(seq "$hosts"); do tc qdisc replace dev "podium-v$i" root tbf rate $rate burst 128kb latency 50ms; done
    same_hashes "3 hosts at $rate" 3 1
  done
  for i in $(seq "$hosts"); do tc qdisc del dev "podium-v$i" root; done
fi
if command -v nft >/dev/null; then
  for i in 1 2 3; do
    ip netns exec "podium-h$i" nft -f - <<'NFT'
table inet loss {
  chain input {
    type filter hook input priority 0;
    iifname "eth0" numgen random mod 100 == 0 drop
  }
}
NFT
  done
  same_hashes "3 hosts that lose 1% of the packets" 3 1
fi
exit $failed
