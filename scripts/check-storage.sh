#!/usr/bin/env bash
# Checks runs and data in an object store that others wrote: trains from and into it, kills a run, and goes on with it as another
# machine would; all hashes must be equal.
#
#   scripts/check-storage.sh [build/podium]            # Ceph's S3 gateway, started on this machine with its data in memory; needs
#                                                      # root, and radosgw, ceph-mon, ceph-osd and ceph-mgr of Debian; two minutes
#   scripts/check-storage.sh --google [build/podium]   # gcp-storage-emulator (from PyPI), a server with Google's interface, which
#                                                      # writes whatever generation is asked for; a minute
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

store=s3
if [[ ${1:-} == --google ]]; then
  store=gs
  shift
fi
podium=$(realpath "${1:-$root/build/podium}")
scratch=$(mktemp -d)
cd "$scratch"
trap 'kill $(cat "$scratch"/*.pid 2>/dev/null) 2>/dev/null; sleep 1; rm -rf --one-file-system "$scratch"' EXIT

# Waits until something listens there.
await_port() {
  local i
  for ((i = 0; i < 120; i++)); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
    sleep 0.5
  done
  fail "nothing listens at port $1"
}

# start_STORE, and put_STORE FILE KEY, into the bucket "tests" that it makes.
start_gs() {
  say "gcp-storage-emulator"
  local port=7482
  python3 -m venv environment
  environment/bin/pip install --quiet gcp-storage-emulator
  environment/bin/gcp-storage-emulator start --host=127.0.0.1 --port="$port" --in-memory --default-bucket=tests >server.log 2>&1 &
  echo $! >server.pid
  await_port "$port"
  export STORAGE_EMULATOR_HOST=http://127.0.0.1:$port
}
put_gs() {
  curl --silent --fail --show-error -X POST --data-binary "@$1" --output answer.json \
    "$STORAGE_EMULATOR_HOST/upload/storage/v1/b/tests/o?uploadType=media&name=$2"
}

start_s3() {
  for program in radosgw ceph-mon ceph-osd ceph-mgr; do
    command -v "$program" >/dev/null || fail "no $program here: apt-get install radosgw ceph-mon ceph-osd ceph-mgr"
  done
  say "Ceph: a monitor, a manager, a store in memory and its gateway"
  port=7481
  id=$(cat /proc/sys/kernel/random/uuid)
  cat >ceph.conf <<END
[global]
fsid = $id
mon host = 127.0.0.1:7480
ms mon client mode = crc
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
mon allow pool size one = true
osd crush chooseleaf type = 0
public addr = 127.0.0.1
cluster addr = 127.0.0.1
osd objectstore = memstore
memstore device bytes = 4294967296
mon data = $scratch/mon
osd data = $scratch/osd
mgr data = $scratch/mgr
rgw data = $scratch/rgw
run dir = $scratch
admin socket = $scratch/\$name.asok
log file = $scratch/\$name.log
pid file = $scratch/\$name.pid
rgw frontends = beast endpoint=127.0.0.1:$port
mon data avail warn = 0
mon data avail crit = 0
osd failsafe full ratio = 0.99
mon cluster log file = $scratch/cluster.log
crash dir = $scratch
END
  export CEPH_CONF=$scratch/ceph.conf
  mkdir mon osd mgr rgw
  monmaptool --create --add a 127.0.0.1:7480 --fsid "$id" monmap >/dev/null
  quietly() { "$@" >>"$scratch/log" 2>&1 || { tail -n 20 "$scratch/log" >&2 && fail "$1 failed"; }; }
  quietly ceph-mon --mkfs -i a --monmap monmap --mon-data "$scratch/mon"
  quietly ceph-mon -i a
  quietly ceph-mgr -i x
  osd=$(cat /proc/sys/kernel/random/uuid)
  quietly ceph osd new "$osd" 0
  quietly ceph-osd -i 0 --mkfs --osd-uuid "$osd"
  quietly ceph-osd -i 0
  quietly radosgw -n client.rgw
  await_port "$port"
  quietly radosgw-admin user create --uid=podium --display-name=podium --access-key=AKIDTEST --secret-key=secret/test

  export AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=secret/test
  export AWS_EC2_METADATA_DISABLED=true
  # A bucket, by a request that curl signs.
  curl --silent --fail --show-error --aws-sigv4 aws:amz:us-east-1:s3 --user AKIDTEST:secret/test -X PUT \
    -H "x-amz-content-sha256: $(printf '' | sha256sum | cut -d' ' -f1)" "$AWS_ENDPOINT_URL_S3/tests"
}
put_s3() {
  curl --silent --fail --show-error --aws-sigv4 aws:amz:us-east-1:s3 --user AKIDTEST:secret/test -T "$1" \
    -H "x-amz-content-sha256: $(sha256sum "$1" | cut -d' ' -f1)" "$AWS_ENDPOINT_URL_S3/tests/$2"
}

"start_$store"
on() { XDG_CACHE_HOME=$scratch/$1 "$podium" "${@:2}"; }
keys=(glyphs train_examples=2048 test_examples=500 epochs=3 run.checkpoint_every_steps=4)
say "a run of this machine alone"
on local train "${keys[@]}" --quiet --out "$scratch/plain"
say "the same into the store, killed and resumed, from two machines in turn"
on first train "${keys[@]}" --steps 9 --quiet --out "$store://tests/runs/a"
XDG_CACHE_HOME=$scratch/first "$podium" train "${keys[@]}" --quiet --out "$store://tests/runs/a" &
run=$!
sleep 0.4
kill -9 "$run" 2>/dev/null || true
wait "$run" 2>/dev/null || true
on second train "${keys[@]}" --quiet --out "$store://tests/runs/a"
on third diff "$store://tests/runs/a" "$scratch/plain"
on third eval "$store://tests/runs/a"
say "data from the store"
printf 'a,b,c\n' >rows.csv
for ((i = 0; i < 200; i++)); do echo "$i,$((i * i % 17)),$((i * 3 + i * i % 17))"; done >>rows.csv
"put_$store" rows.csv data/rows.csv
on first train "table:$store://tests/data/rows.csv" target=c epochs=2 --quiet --out "$scratch/table"
on first train "table:$scratch/rows.csv" target=c epochs=2 --quiet --out "$scratch/table-file"
cmp table/hashes.jsonl table-file/hashes.jsonl
say "all hashes are equal"
