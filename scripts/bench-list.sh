#!/usr/bin/env bash
# Times the list of a million objects of a store of S3's kind, with pages of a thousand, on loopback.
#
#   scripts/bench-list.sh BUILD [OBJECTS]    # BUILD: a folder that was configured with -DPODIUM_BENCH=ON
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=$(realpath "$1")/bench/list_bench
export OBJECTS=${2:-1000000}
python3 - "$program" <<'PYTHON'
import http.server, os, subprocess, sys, threading, time, urllib.parse

TOTAL, PAGE = int(os.environ["OBJECTS"]), 1000
served = 0.0


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        global served
        start = time.perf_counter()
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        first = int(query.get("continuation-token", 0))
        last = min(first + PAGE, TOTAL)
        text = "".join(
            f"<Contents><Key>photos/train/n{i // 1300:08d}/n{i:08d}.JPEG</Key><LastModified>2026-11-29T08:00:00.000Z</LastModified>"
            f"<ETag>&quot;{i:032x}&quot;</ETag><Size>{100000 + i % 9999}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for i in range(first, last))
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>" if last < TOTAL else \
            "<IsTruncated>false</IsTruncated>"
        body = ('<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"{text}{more}</ListBucketResult>").encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        served += time.perf_counter() - start


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
environment = dict(os.environ, AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{server.server_address[1]}", AWS_ACCESS_KEY_ID="id",
                   AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1")
result = subprocess.run([sys.argv[1], "s3://photos/photos/train/"], env=environment, text=True, capture_output=True)
print(result.stdout + result.stderr, f"of which the server took {served:.1f} s", sep="")
sys.exit(result.returncode)
PYTHON
