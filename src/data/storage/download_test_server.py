"""A web server on loopback for download_test: serves the files of a folder with chosen faults.

Usage: download_test_server.py FOLDER. Prints its port, and runs until its standard input is closed.

  /ok/FILE        as a good server does, ranges too
  /norange/FILE   ignores ranges
  /cut/FILE       sends at most 1,000 bytes of each answer, then hangs up
  /claims/FILE    announces 100 bytes more than there are
  /lacks/FILE     announces and sends 100 bytes fewer than there are
  /wrong/FILE     the right number of other bytes
  /long/FILE      announces and sends 5,000 bytes more than there are
  /endless/FILE   announces no length, and goes on after the end until nobody listens, or 64 MiB
  /stalls/FILE    at the first request, announces all, sends 1,000 bytes and then nothing; then good
  /mute/FILE      takes the request and never answers
  /trickle/FILE   announces all, sends 10 bytes, and 10 more each twentieth of a second
  /slow/FILE      sends all in 45 pieces, each a tenth of a second after the other
  /busy/FILE      503 at the first request, then good
  /moved/FILE     redirects to /ok/FILE
  /requests       the requests so far, one a line: PATH RANGE
"""
import http.server
import os
import sys
import threading
import time

FOLDER = sys.argv[1]
REQUESTS = []


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b"", length=None, headers=()):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self, body):
        """All of it, and zeros behind; the connection's end is the answer's."""
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(body)
            for _ in range(64):
                self.wfile.write(bytes(1 << 20))
        except (BrokenPipeError, ConnectionResetError):
            pass

    def pieces(self, body, length, pause):
        """Pieces of `length` bytes, a pause before each but the first, while somebody listens."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = True
        try:
            for at in range(0, len(body), length):
                time.sleep(pause if at else 0)
                self.wfile.write(body[at : at + length])
        except (BrokenPipeError, ConnectionResetError):
            pass

    def do_GET(self):
        if self.path == "/requests":
            self.answer(200, "".join(line + "\n" for line in REQUESTS).encode())
            return
        span = self.headers.get("Range", "")
        REQUESTS.append(f"{self.path} {span}".strip())
        _, kind, *rest = self.path.split("/")
        path = os.path.join(FOLDER, *rest)
        if not os.path.isfile(path):
            self.answer(404, b"not here")
            return
        with open(path, "rb") as file:
            body = file.read()
        if kind == "busy" and len(REQUESTS) == 1:
            self.answer(503, b"come back later")
            return
        if kind == "mute":
            time.sleep(60)
        if kind == "stalls" and len(REQUESTS) == 1:
            self.pieces(body, 1000, 60)
            return
        if kind == "trickle":
            self.pieces(body, 10, 0.05)
            return
        if kind == "slow":
            self.pieces(body, len(body) // 45, 0.1)
            return
        if kind == "moved":
            self.answer(302, headers=[("Location", "/ok/" + "/".join(rest))])
            return
        if kind == "wrong":
            body = bytes(byte ^ 1 for byte in body)
        if kind == "lacks":
            body = body[:-100]
        if kind == "long":
            body += bytes(5000)
        if kind == "endless":
            self.stream(body)
            return
        status, headers, whole = 200, [], len(body)
        if span and kind != "norange":
            start = int(span.removeprefix("bytes=").split("-")[0])
            if start >= whole:
                self.answer(416, headers=[("Content-Range", f"bytes */{whole}")])
                return
            body = body[start:]
            status = 206
            headers = [("Content-Range", f"bytes {start}-{whole - 1}/{whole}")]
        length = len(body) + (100 if kind == "claims" else 0)
        self.answer(status, body[:1000] if kind == "cut" else body, length, headers)
        if kind in ("cut", "claims"):
            self.close_connection = True


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
