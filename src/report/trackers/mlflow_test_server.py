"""An MLflow tracking server's REST interface on loopback for mlflow_test, in memory, with chosen faults.

Usage: mlflow_test_server.py. Prints its port, and runs until its standard input is closed.

A request without the user "ada" and the password "secret" is refused once POST /_guard has been asked for. POST
/_fault?kind=KIND&count=N: what the next N requests suffer: "500", "lost" (done, but the connection ends without an
answer) or "page" (status 200 and HTML). GET /_state: experiments and runs as JSON.
"""
import base64
import http.server
import json
import sys
import threading
import urllib.parse

EXPERIMENTS, RUNS, FAULTS, GUARD = {}, {}, [], []
LOCK = threading.Lock()


class Refusal(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.body = status, {"error_code": code, "message": message}


def run_of(body):
    if body["run_id"] not in RUNS:
        raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", "no such run")
    return RUNS[body["run_id"]]


def by_name(body):
    if body["experiment_name"] not in EXPERIMENTS:
        raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", "no such experiment")
    return {"experiment": {"experiment_id": EXPERIMENTS[body["experiment_name"]]}}


def create_experiment(body):
    EXPERIMENTS[body["name"]] = str(len(EXPERIMENTS) + 1)
    return {"experiment_id": EXPERIMENTS[body["name"]]}


def create_run(body):
    assert body["experiment_id"] in EXPERIMENTS.values() and body["start_time"] > 10**12
    name = f"run{len(RUNS)}"
    RUNS[name] = {"name": body["run_name"], "status": "RUNNING", "params": {}, "points": [], "requests": 0,
                  "tags": {tag["key"]: tag["value"] for tag in body["tags"]}}
    return {"run": {"info": {"run_id": name}}}


def log_batch(body):
    run, points, params = run_of(body), body.get("metrics", []), body.get("params", [])
    if len(points) > 1000 or len(params) > 100:
        raise Refusal(400, "INVALID_PARAMETER_VALUE", "too many")
    for param in params:
        if run["params"].setdefault(param["key"], param["value"]) != param["value"]:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "a parameter has another value")
    for point in points:
        assert isinstance(point["timestamp"], int)
        one = [point["key"], point["step"], point["value"], point["timestamp"]]
        if one not in run["points"]:  # as MLflow's database
            run["points"].append(one)
    run["requests"] += 1
    return {}


def update(body):
    run_of(body)["status"] = body["status"]
    return {}


def set_tag(body):
    run_of(body)["tags"][body["key"]] = body["value"]
    return {}


CALLS = {"experiments/get-by-name": by_name, "experiments/create": create_experiment, "runs/create": create_run,
         "runs/log-batch": log_batch, "runs/update": update, "runs/set-tag": set_tag}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_call(self):
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with LOCK:
            if parts.path == "/_state":
                return self.answer(200, json.dumps({"experiments": EXPERIMENTS, "runs": RUNS}).encode())
            if parts.path == "/_guard":
                GUARD.append(True)
                return self.answer(200, b"")
            if parts.path == "/_fault":
                FAULTS[:] = [query["kind"]] * int(query["count"])
                return self.answer(200, b"")
            fault = FAULTS.pop(0) if FAULTS else None
            wanted = "Basic " + base64.b64encode(b"ada:secret").decode()
            if GUARD and self.headers.get("Authorization") != wanted:
                return self.answer(401, b"who are you?")
            if fault == "500":
                return self.answer(500, b"")
            if fault == "page":
                return self.answer(200, b"<html></html>")
            call = CALLS.get(parts.path.removeprefix("/api/2.0/mlflow/"))
            if call is None:
                return self.answer(404, b"not found")
            try:
                status, body = 200, call(json.loads(text) if text else query)
            except Refusal as refusal:
                status, body = refusal.status, refusal.body
        if fault == "lost":
            self.close_connection = True
            return None
        return self.answer(status, json.dumps(body).encode())

    do_GET = do_POST = handle_call


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
