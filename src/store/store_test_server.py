"""A store of S3's and of Google's kind on loopback for store_test, with chosen faults. It computes the signature of each
request itself, and that of Google's service accounts by openssl.

Usage: store_test_server.py [PEM]. Prints its port, and runs until its standard input is closed. PEM holds a key and its
certificate: then it speaks TLS.

Buckets: "data" and "other", empty at first; "public" needs no signature; "far" is in the region eu-test-1. Lists have
three objects a page. The key's id is "AKIDTEST" and its secret "secret/test"; "AKIDREAD" with the same secret may not write.

Google's interface has the same buckets at /storage/v1/ and /upload/storage/v1/, for whoever has a token of /token; the
service account's public key is in the file that POST /_account names.

  POST /_fault?kind=KIND&count=N    what the next N requests for objects suffer; all answers are "" with status 200:
      cut       half of the answer, then the connection ends      short     ten bytes too few, announced as such
      corrupt   a changed byte                                    slow      a twentieth of a second before the answer
      mute      no answer for a minute                            lost      what is written is done, the answer is lost
      none      forgets the faults that are left
      500 503 507, or a code of S3: ExpiredToken RequestTimeTooSkewed QuotaExceeded BadDigest
  POST /_put?bucket=B&key=K         puts an object as another program would
  GET  /_requests                   the requests so far, one a line: METHOD PATH
"""
import base64
import hashlib
import hmac
import http.server
import json
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

SECRETS = {"AKIDTEST": "secret/test", "AKIDREAD": "secret/test"}
BUCKETS = {"data": {}, "other": {}, "public": {}, "far": {}}
UPLOADS, FAULTS, REQUESTS = {}, [], []
GENERATIONS, ACCOUNT, TOKENS = {}, [], []
LOCK = threading.RLock()
STATUS = {"ExpiredToken": 400, "RequestTimeTooSkewed": 403, "QuotaExceeded": 403, "BadDigest": 400, "500": 500,
          "503": 503, "507": 507}


def tag_of(body):
    return '"' + hashlib.md5(body).hexdigest() + '"'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b"", headers=(), fault=None):
        if fault == "lost":
            self.close_connection = True
            return
        if fault == "corrupt" and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        length = len(body)
        if fault == "short":
            body = body[:-10]
            length = len(body)
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "cut":
            body = body[: length // 2]
            self.close_connection = True
        self.wfile.write(body)

    def refuse(self, status, code, headers=()):
        self.answer(status, f"<Error><Code>{code}</Code><Message>about {code}</Message></Error>".encode(), headers)

    def right_signature(self, query, body):
        """Whether the request has the signature that its parts and the secret give."""
        given = self.headers.get("Authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return "AccessDenied"
        parts = dict(part.split("=", 1) for part in given.split(" ", 1)[1].split(","))
        key, day, region, service, _ = parts["Credential"].split("/")
        if key not in SECRETS:
            return "InvalidAccessKeyId"
        if self.bucket == "far" and region != "eu-test-1":
            return "AuthorizationHeaderMalformed"
        names = parts["SignedHeaders"].split(";")
        unsigned = [name for name in self.headers if name.lower().startswith("x-amz-") and name.lower() not in names]
        if unsigned or "host" not in names:
            return "AccessDenied"
        if self.headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return "XAmzContentSHA256Mismatch"
        quoted = sorted((urllib.parse.quote(n, safe="-_.~"), urllib.parse.quote(v, safe="-_.~")) for n, v in query)
        canonical = "\n".join([
            self.command, self.path.split("?")[0], "&".join(f"{n}={v}" for n, v in quoted),
            "".join(f"{name}:{self.headers[name].strip()}\n" for name in names), ";".join(names),
            self.headers["x-amz-content-sha256"],
        ])
        signing = ("AWS4" + SECRETS[key]).encode()
        for step in (day, region, service, "aws4_request"):
            signing = hmac.new(signing, step.encode(), hashlib.sha256).digest()
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], f"{day}/{region}/{service}/aws4_request",
                          hashlib.sha256(canonical.encode()).hexdigest()])
        right = hmac.new(signing, text.encode(), hashlib.sha256).hexdigest()
        if right != parts["Signature"]:
            return "SignatureDoesNotMatch"
        if key == "AKIDREAD" and self.command not in ("GET", "HEAD"):
            return "AccessDenied"
        return ""

    def control(self, path, query, body):
        values = dict(query)
        with LOCK:
            if path == "/_fault":
                if values["kind"] == "none":
                    FAULTS.clear()
                else:
                    FAULTS.extend([values["kind"]] * int(values["count"]))
            if path == "/_account":
                ACCOUNT[:] = [values["key"]]
            if path == "/_put":
                BUCKETS[values["bucket"]][values["key"]] = body
            text = "\n".join(REQUESTS) if path == "/_requests" else ""
        self.answer(200, text.encode())

    def handle_one(self):
        path, _, text = self.path.partition("?")
        query = urllib.parse.parse_qsl(text, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if path.startswith("/_"):
            return self.control(path, query, body)
        if path == "/token":
            return self.google_token(dict(urllib.parse.parse_qsl(body.decode())))
        if path.startswith(("/storage/v1/b/", "/upload/storage/v1/b/")):
            return self.google(path, dict(query), body)
        self.bucket, _, key = urllib.parse.unquote(path)[1:].partition("/")
        with LOCK:
            REQUESTS.append(f"{self.command} {self.path}")
            fault = FAULTS.pop(0) if FAULTS else None
        if fault in STATUS:
            return self.refuse(STATUS[fault], fault, [("Date", "Thu, 01 Jan 2026 00:00:00 GMT")])
        if fault == "mute":
            time.sleep(60)
            self.close_connection = True
            return None
        if fault == "slow":
            time.sleep(0.05)
        if self.bucket not in BUCKETS:
            return self.refuse(404, "NoSuchBucket")
        if self.bucket != "public":
            problem = self.right_signature(query, body)
            if problem == "AuthorizationHeaderMalformed":
                return self.refuse(400, problem, [("x-amz-bucket-region", "eu-test-1")])
            if problem:
                return self.refuse(403, problem)
        with LOCK:
            return getattr(self, "s3_" + self.command.lower())(BUCKETS[self.bucket], key, dict(query), body, fault)

    def s3_get(self, objects, key, query, _body, fault):
        if not key:
            return self.listed(objects, query, fault)
        if key not in objects:
            return self.refuse(404, "NoSuchKey")
        body = objects[key]
        if self.headers.get("If-Match", tag_of(body)) != tag_of(body):
            return self.refuse(412, "PreconditionFailed")
        status, headers = 200, [("ETag", tag_of(body))]
        if "Range" in self.headers:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            body, status = body[int(first) : int(last) + 1], 206
        return self.answer(status, body, headers, fault)

    s3_head = s3_get

    def listed(self, objects, query, fault):
        keys = sorted(key for key in objects if key.startswith(query.get("prefix", "")))
        begin = int(query.get("continuation-token", "0"))
        page = keys[begin : begin + 3]
        more = begin + 3 < len(keys)
        text = "<ListBucketResult><EncodingType>url</EncodingType>"
        for key in page:
            text += (f"<Contents><Key>{urllib.parse.quote(key)}</Key><Size>{len(objects[key])}</Size>"
                     f"<ETag>{tag_of(objects[key]).replace(chr(34), '&quot;')}</ETag></Contents>")
        text += f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        text += f"<NextContinuationToken>{begin + 3}</NextContinuationToken>" if more else ""
        return self.answer(200, (text + "</ListBucketResult>").encode(), (), fault)

    def s3_put(self, objects, key, query, body, fault):
        if "Content-MD5" in self.headers:
            if base64.b64decode(self.headers["Content-MD5"]) != hashlib.md5(body).digest():
                return self.refuse(400, "BadDigest")
        if "partNumber" in query:
            UPLOADS[query["uploadId"]][int(query["partNumber"])] = body
            return self.answer(200, b"", [("ETag", tag_of(body))], fault)
        if self.headers.get("If-None-Match") == "*" and key in objects:
            return self.refuse(412, "PreconditionFailed")
        if "If-Match" in self.headers:
            if key not in objects:
                return self.refuse(404, "NoSuchKey")
            if tag_of(objects[key]) != self.headers["If-Match"]:
                return self.refuse(412, "PreconditionFailed")
        objects[key] = body
        return self.answer(200, b"", [("ETag", tag_of(body))], fault)

    def s3_post(self, objects, key, query, _body, fault):
        if "uploads" in query:
            name = f"upload-{len(UPLOADS)}"
            UPLOADS[name] = {}
            return self.answer(200, f"<R><UploadId>{name}</UploadId></R>".encode(), (), fault)
        parts = UPLOADS.pop(query["uploadId"])
        objects[key] = b"".join(parts[number] for number in sorted(parts))
        return self.answer(200, b"<R><ETag>x</ETag></R>", (), fault)

    def s3_delete(self, objects, key, query, _body, fault):
        if "uploadId" in query:
            UPLOADS.pop(query["uploadId"], None)
        else:
            objects.pop(key, None)
        return self.answer(204, b"", (), fault)

    def google_refuse(self, status, message):
        self.answer(status, json.dumps({"error": {"code": status, "message": message}}).encode())

    def google_token(self, form):
        """Whether the assertion is signed by the account's key: openssl says."""
        text, _, signature = form["assertion"].rpartition(".")
        signature = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        claims = text.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        with tempfile.NamedTemporaryFile() as file:
            file.write(signature)
            file.flush()
            checked = subprocess.run(["openssl", "dgst", "-sha256", "-verify", ACCOUNT[0], "-signature", file.name],
                                     input=text.encode(), capture_output=True)
        if checked.returncode != 0 or claims["exp"] - claims["iat"] > 3600:
            return self.answer(400, b'{"error": "invalid_grant"}')
        TOKENS.append(f"token-{len(TOKENS)}")
        return self.answer(200, json.dumps({"access_token": TOKENS[-1], "expires_in": 3599}).encode())

    def google(self, path, query, body):
        upload = path.startswith("/upload")
        bucket, _, key = path.split("/b/")[1].partition("/o")
        key = urllib.parse.unquote(key[1:])
        with LOCK:
            REQUESTS.append(f"{self.command} {self.path}")
            fault = FAULTS.pop(0) if FAULTS else None
        if fault in STATUS:
            message = "quota exceeded" if fault == "QuotaExceeded" else f"about {fault}"
            return self.google_refuse(401 if fault == "ExpiredToken" else STATUS[fault], message)
        if fault == "slow":
            time.sleep(0.05)
        if fault == "mute":
            time.sleep(60)
        if bucket not in BUCKETS:
            return self.google_refuse(404, "The specified bucket does not exist.")
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if ACCOUNT and bucket != "public" and token not in TOKENS[-1:]:
            return self.google_refuse(401 if token else 403, "Anonymous caller")
        with LOCK:
            objects = BUCKETS[bucket]
            if upload:
                return self.google_upload(objects, bucket, query, body, fault)
            if not key:
                names = sorted(name for name in objects if name.startswith(query.get("prefix", "")))
                begin = int(query.get("pageToken", "0"))
                page = {"items": [self.google_object(bucket, name) for name in names[begin : begin + 3]]}
                if begin + 3 < len(names):
                    page["nextPageToken"] = str(begin + 3)
                return self.answer(200, json.dumps(page).encode(), (), fault)
            if key not in objects:
                return self.google_refuse(404, "No such object")
            if self.command == "DELETE":
                del objects[key]
                return self.answer(204, b"", (), fault)
            item = self.google_object(bucket, key)
            if query.get("ifGenerationMatch", item["generation"]) != item["generation"]:
                return self.google_refuse(412, "conditionNotMet")
            if query.get("alt") != "media":
                return self.answer(200, json.dumps(item).encode(), (), fault)
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            return self.answer(206, objects[key][int(first) : int(last) + 1], (), fault)

    def google_object(self, bucket, key):
        body = BUCKETS[bucket][key]
        known = GENERATIONS.get((bucket, key))
        if known is None or known[1] is not body:
            GENERATIONS[bucket, key] = known = (len(GENERATIONS) + (known[0] if known else 0) + 1, body)
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        return {"name": key, "size": str(len(body)), "generation": str(known[0]), "md5Hash": md5}

    def google_upload(self, objects, bucket, query, body, fault):
        key = query["name"]
        there = self.google_object(bucket, key)["generation"] if key in objects else "0"
        if query.get("ifGenerationMatch", there) != there:
            return self.google_refuse(412, "conditionNotMet")
        if query["uploadType"] == "resumable" and self.command == "POST":
            name = f"upload-{len(UPLOADS)}"
            UPLOADS[name] = {}
            host = self.headers["Host"]
            return self.answer(200, b"", [("Location", f"http://{host}{self.path}&upload_id={name}")], fault)
        if "upload_id" in query:
            parts = UPLOADS[query["upload_id"]]
            span, total = self.headers["Content-Range"].removeprefix("bytes ").split("/")
            parts[int(span.split("-")[0])] = body
            if int(span.split("-")[1]) + 1 < int(total):
                return self.answer(308, b"", (), fault)
            body = b"".join(parts[offset] for offset in sorted(parts))
        objects[key] = bytes(body)
        return self.answer(200, json.dumps(self.google_object(bucket, key)).encode(), (), fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """Says nothing: clients are killed on purpose."""


server = Server(("127.0.0.1", 0), Handler)
server.daemon_threads = True
if sys.argv[1:] and sys.argv[1]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
