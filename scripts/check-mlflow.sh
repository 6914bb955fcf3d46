#!/usr/bin/env bash
# Trains beside a real MLflow tracking server (from PyPI), stops, goes on, and compares what the server has with the run's own files.
#
#   scripts/check-mlflow.sh [PODIUM]    # the program; default: build/podium
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=$(realpath "${1:-$root/build/podium}")
folder=$(mktemp -d)
server=
finish() {
  if [[ -n $server ]]; then kill "$server" 2>/dev/null || true; fi
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"

say "installing MLflow"
python3 -m venv environment
environment/bin/pip install --quiet mlflow
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
environment/bin/mlflow server --host 127.0.0.1 --port "$port" --backend-store-uri "sqlite:///$folder/mlflow.sqlite" \
  --workers 1 >server.log 2>&1 &
server=$!
for ((i = 0; i < 120; ++i)); do
  curl --silent --fail "http://127.0.0.1:$port/health" >/dev/null && break
  sleep 1
done

say "training"
for steps in 40 100; do
  MLFLOW_EXPERIMENT_NAME="check & see" "$program" train glyphs --steps "$steps" --out run --mlflow "http://127.0.0.1:$port/" --quiet
done

say "comparing"
MLFLOW_TRACKING_URI="http://127.0.0.1:$port" environment/bin/python - <<'PYTHON'
import json
from mlflow.tracking import MlflowClient

client = MlflowClient()
runs = client.search_runs([client.get_experiment_by_name("check & see").experiment_id])
assert len(runs) == 1, runs
run = runs[0]
assert run.info.status == "FINISHED" and run.info.run_name == "run", run.info
last = json.loads(open("run/hashes.jsonl").read().splitlines()[-1])["hash"]
assert run.data.tags["podium.parameter_hash"] == last, run.data.tags
compared = 0
for key, curve in {"loss": "train/loss", "accuracy": "train/accuracy", "test_accuracy": "test/accuracy"}.items():
    own = {}
    for line in map(json.loads, open("run/metrics.jsonl")):
        if key in line:
            own[line["step"]] = line[key]
    sent = {point.step: point.value for point in client.get_metric_history(run.info.run_id, curve)}
    assert own.keys() == sent.keys() and own, (curve, own, sent)
    for step, value in own.items():
        assert abs(sent[step] - value) <= 1e-6 * abs(value), (curve, step, value, sent[step])
    compared += len(own)
print(f"one run, {len(run.data.params)} settings, {compared} points: all equal")
PYTHON
