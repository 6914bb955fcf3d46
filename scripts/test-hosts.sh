#!/usr/bin/env bash
# Runs podium across simulated hosts, network namespaces of this machine joined by a bridge: the hashes must equal those of one
# process, and losing a host must end the run in time with an error that names the host. Needs root, Open MPI, ip (iproute2), and tc for slow links.
#
#   scripts/test-hosts.sh                # 2, 3 and 4 hosts, all cases
#   scripts/test-hosts.sh --hosts "2 4"  # these numbers of hosts; the cases with slow links or a lost host take 3
#   scripts/test-hosts.sh --quick        # one run on 2 hosts, and one on 3 of which one is lost
#   scripts/test-hosts.sh --build DIR    # another build folder than build
#   scripts/test-hosts.sh --rate 1gbit --hosts 2 --bench "exchange mnist"    # no test: podium bench across the hosts
#
# Prints one line per case; exit code 1 if any failed, 77 if namespaces are not available. The recipes mnist and cifar10-sprint run where
# podium finds their data (PODIUM_DATA, docs/adding-a-dataset.md), otherwise they are listed as skipped.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

arguments=("$@")
quick=no
counts="2 3 4"
build=$root/build
bench=
rate=
while [[ $# -gt 0 ]]; do
  case $1 in
    --quick) quick=yes && shift ;;
    --hosts) counts=${2:?"--hosts needs numbers, such as \"2 3\""} && shift 2 ;;
    --build) build=$(realpath "${2:?--build needs a folder}") && shift 2 ;;
    --bench) bench=${2:?"--bench needs the arguments of podium bench, such as \"exchange mnist\""} && shift 2 ;;
    --rate) rate=${2:?--rate needs the speed of a link, as tc has it: 1gbit} && shift 2 ;;
    *) fail "unknown argument $1" ;;
  esac
done
[[ $counts =~ ^[2-8](\ [2-8])*$ ]] || fail "--hosts takes numbers from 2 to 8, such as \"2 3\""
podium=$build/podium
[[ -x $podium ]] || fail "needs $podium: scripts/build.sh"
skip() { echo "skipped: $*" && exit 77; }

# Everything runs in its own namespaces, so that two runs of this script do not interfere, no packet leaves the machine, and
# nothing remains even if this script is killed.
private=(unshare --net --mount --pid --fork --kill-child --mount-proc)
if [[ ${PODIUM_HOSTS_PRIVATE:-} != yes ]]; then
  [[ $(id -u) -eq 0 ]] || skip "network namespaces need root"
  command -v ip >/dev/null || skip "no ip: install iproute2"
  command -v mpirun >/dev/null || skip "no mpirun: scripts/install-dependencies.sh mpi"
  mpirun --version | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
  mkdir -p /run/netns
  "${private[@]}" bash -c 'mount -t tmpfs none /run/netns && ip netns add try && ip link add try0 type bridge' 2>/dev/null ||
    skip "this system allows no network namespaces"
  PODIUM_HOSTS_PRIVATE=yes exec "${private[@]}" "${BASH_SOURCE[0]}" "${arguments[@]}"
fi
mount -t tmpfs none /run/netns
ip link set lo up

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
timeout=8
hosts=$(tr ' ' '\n' <<<"3 $counts" | sort -n | tail -n 1)

# A bridge that mpirun has an address on, and hosts 10.99.7.11, .12, ... behind it.
bridge="podium-br"
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

# Replaces ssh: HOST COMMAND.
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
# on_hosts HOSTS RANKS_EACH ARGUMENTS: podium on the first so many hosts.
on_hosts() {
  local count=$1 each=$2 list="" i
  shift 2
  for i in $(seq "$count"); do list+="${list:+,}podium-h$i:$each"; done
  mpirun --mca plm_rsh_agent "$work/agent" --mca btl_tcp_if_include 10.99.7.0/24 --mca oob_tcp_if_include 10.99.7.0/24 \
    --mca oob_tcp_keepalive_time 3 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 --mca orte_tmpdir_base "$work" \
    --mca btl tcp,self --mca hwloc_base_binding_policy none --oversubscribe --host "$list" -n $((count * each)) "$podium" "$@"
}

# run_on HOSTS RANKS_EACH OUT ARGUMENTS: podium train on them.
run_on() {
  on_hosts "$1" "$2" train "${@:4}" --out "$3" --workers 1 --rank-timeout $timeout --quiet
}

# slow_links RATE
slow_links() {
  local i
  for i in $(seq "$hosts"); do tc qdisc replace dev "podium-v$i" root tbf rate "$1" burst 128kb latency 50ms; done
}

if [[ -n $bench ]]; then
  [[ -z $rate ]] || slow_links "$rate"
  for count in $counts; do
    # shellcheck disable=SC2086 # the words of one argument
    on_hosts "$count" 1 bench $bench
  done
  exit
fi

failed=0
report() { # NAME RESULT DETAIL
  printf '%-44s %-7s %s\n' "$1" "$2" "$3"
  [[ $2 != FAILED ]] || failed=1
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

# kill_ranks HOST SIGNAL: all of a host's ranks by one command. From the commands of lost().
# shellcheck disable=SC2317
kill_ranks() {
  local process ranks=()
  for process in $(ip netns pids "podium-h$1"); do
    [[ $(cat "/proc/$process/comm" 2>/dev/null) != podium ]] || ranks+=("$process")
  done
  kill "-$2" "${ranks[@]}"
}

# lost NAME COMMAND PATTERN: during a long run of two ranks on each of 3 hosts, COMMAND loses one of them. One line must say so, on
# the terminal, in failures.jsonl, and when the run is started again.
lost() {
  local name=$1 out struck code=0
  out=$work/$(tr -c 'a-z0-9\n' - <<<"$name")
  local long=("${recipe[@]}" epochs=100000 evaluation.every_epochs=0 run.checkpoint_every_steps=50)
  run_on 3 2 "$out" "${long[@]}" >"$work/log" 2>&1 &
  local launcher=$!
  for _ in $(seq 300); do
    [[ ! -d $out/checkpoints/step-00000100 ]] || break
    sleep 0.1
  done
  struck=$SECONDS
  eval "$2"
  wait $launcher || code=$?
  local seconds=$((SECONDS - struck)) left i
  sleep 1
  left=$(for i in $(seq "$hosts"); do ip netns pids "podium-h$i"; done | wc -l)
  for i in $(seq "$hosts"); do ip link set "podium-v$i" up; done
  local said recorded again
  said=$( (grep '^podium: ' "$work/log" || true) | sed 's/^podium: //; s/; the run ends$//')
  recorded=$(sed -nE 's/.*"failure": "([^"]*)", "heard": ([0-9]+)\}/\2 \1/p' "$out/failures.jsonl" 2>/dev/null | sort -rn -k 1,1 -s |
    sed -n '1s/^[0-9]* //p' || true)
  again=$("$podium" train "${long[@]}" --out "$out" --steps 1 2>&1 | grep -o 'ended with a failure: .*' | cut -d ' ' -f 5- || true)
  # If two ranks are killed, each may report it; the folder records the first.
  if [[ $code -ne 0 && $seconds -le $((timeout + 5)) && $left -eq 0 && -n $said ]] && ! grep -qvE "^$3$" <<<"$said" &&
    [[ $said == *"$recorded"* && -n $recorded && $again == "$recorded" ]]; then
    report "$name" ok "exit code $code after $seconds s: $recorded"
  else
    report "$name" FAILED "exit code $code, $seconds s, $left processes left, said: $said; recorded: $recorded; said again: $again"
  fi
}

# All processes of a host at once, so that none is left to report the end of another.
all_end='ip netns pids podium-h3 | xargs -r kill -STOP; ip netns pids podium-h3 | xargs -r kill -KILL'
silent='step [0-9]+ \([a-z]+\): silent for [0-9.]+ s when the launcher ended the run.*'
if [[ $quick == yes ]]; then
  same_hashes "2 hosts" 2 1
  lost "a host that loses all processes" "$all_end" "ranks 4 and 5 on host podium-h3, $silent"
  exit $failed
fi
for count in $counts; do same_hashes "$count hosts of one rank" "$count" 1; done
same_hashes "2 hosts of two ranks" 2 2

# across NAME ARGUMENTS: a recipe with data of its own, on each number of hosts.
across() {
  local name=$1 code=0
  shift
  "$podium" train "$@" --out "$work/alone-$name" --workers 1 --quiet >"$work/log" 2>&1 || code=$?
  if [[ $code -eq 3 ]]; then
    report "$name" skipped "$(grep -m 1 '^podium:' "$work/log")"
  elif [[ $code -ne 0 ]]; then
    report "$name" FAILED "one process: exit code $code, $(tail -n 1 "$work/log")"
  else
    for count in $counts; do same_hashes "$name on $count hosts" "$count" 1 "$work/alone-$name" "$@"; done
  fi
}
across mnist mnist run.hash_every_steps=1 --steps 300
across cifar10-sprint cifar10-sprint evaluation.views=1 run.hash_every_steps=1 --steps 4
lost "a host whose ranks are killed" "kill_ranks 3 KILL" 'rank [45] on host podium-h3, step [0-9]+ \([a-z]+\): it was killed.*'
lost "a host that loses all processes" "$all_end" "ranks 4 and 5 on host podium-h3, $silent"
lost "a host whose link is down" "ip link set podium-v3 down" "ranks 4 and 5 on host podium-h3, $silent"
lost "the host of rank 0, whose link is down" "ip link set podium-v1 down" "ranks 0 and 1 on host podium-h1, $silent"
lost "a host whose ranks are stopped" "kill_ranks 3 STOP" 'rank [45] on host podium-h3, step [0-9]+ \([a-z]+\): not heard for 8 s.*'
if command -v tc >/dev/null; then
  for rate in 1gbit 100mbit; do
    slow_links $rate
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
    iifname "eth0" numgen random mod 100 == 0 counter drop
  }
}
NFT
  done
  same_hashes "3 hosts that lose 1% of the packets" 3 1
  dropped=$(for i in 1 2 3; do ip netns exec "podium-h$i" nft list table inet loss; done |
    sed -nE 's/.*counter packets ([0-9]+) .*/\1/p' | paste -sd+)
  if ((dropped > 0)); then report "packets that were dropped" ok "$((dropped))"; else report "packets that were dropped" FAILED none; fi
fi
exit $failed
