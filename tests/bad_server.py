#!/usr/bin/env python3
"""A hub that misbehaves, for tests/get.sh: cuts connections, lies about lengths, is too busy, ignores
ranges. Prints its port, then a line for each request.

Data sets: good/set (two configs, two pages of the list), gated/set, private/set (needs the token "secret").
"""
import hashlib, http.server, json, random, sys, threading

rng = random.Random(5)
FILES = {f"data/part {i}.jsonl": b"".join(b'{"text": "%d of %d"}\n' % (k, i) for k in range(2000 + 3000 * i)) for i in range(4)}
FILES["sample/10BT/a.parquet"] = bytes(rng.randrange(256) for _ in range(300000))
FILES["README.md"] = b"# a card\n"
SEEN = {}  # path: number of requests so far
LOCK = threading.Lock()


def entry(path):
    body = FILES[path]
    e = dict(type="file", path=path, size=len(body), oid=hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest())
    if path.endswith("parquet"):
        e["oid"] = "0" * 40
        e["lfs"] = dict(oid=hashlib.sha256(body).hexdigest(), size=len(body), pointerSize=130)
    return e


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def answer(self, code, body=b"", **headers):
        self.send_response(code)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, value, **headers):
        self.answer(200, json.dumps(value).encode(), **headers)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        path = path.replace("%20", " ")
        with LOCK:
            n = SEEN[path] = SEEN.get(path, 0) + 1
            print(n, self.path, self.headers.get("Range", "-"), self.headers.get("Authorization", "-"), flush=True)
        if path.startswith("/api/datasets/gated/"):
            return self.answer(403, X_Error_Code="GatedRepo")
        if path.startswith(("/api/datasets/private/", "/datasets/private/")) and self.headers.get("Authorization") != "Bearer secret":
            return self.answer(401)
        if path.startswith("/api/datasets/") and "/revision/" in path:
            return self.json(dict(cardData=dict(configs=[
                dict(config_name="sample-10BT", data_files=[dict(split="train", path="sample/10BT/*")]),
                dict(config_name="default", data_files="data/*")])))
        if path.startswith("/api/datasets/") and "/tree/" in path:
            if n == 1:
                return self.answer(429, Retry_After="0")
            names = sorted(FILES)
            if "cursor" in query:
                return self.json([entry(p) for p in names[3:]])
            host = self.headers["Host"]
            return self.json([entry(p) for p in names[:3]], Link=f'<http://{host}{self.path}&cursor=2>; rel="next"')
        if "/resolve/" in path:
            return self.file(path.split("/resolve/")[-1].split("/", 1)[1], n, ranges=True)
        if path.startswith("/plain/"):
            return self.file(path[len("/plain/"):], n, ranges=False)
        if path == "/elsewhere":
            return self.answer(302, Location="http://localhost:%d/plain/README.md" % self.server.server_port)
        self.answer(404)

    def file(self, name, n, ranges):
        if name not in FILES:
            return self.answer(404)
        body, first, code, extra = FILES[name], 0, 200, {}
        asked = self.headers.get("Range")
        if asked and ranges and not (name.endswith("2.jsonl") and n < 4):  # one file ignores them at first
            first = int(asked.split("=")[1].split("-")[0])
            if first >= len(body):
                return self.answer(416, Content_Range="bytes */%d" % len(body))
            code, extra = 206, dict(Content_Range="bytes %d-%d/%d" % (first, len(body) - 1, len(body)))
        rest = body[first:]
        if name.endswith("0.jsonl") and n == 1:
            return self.answer(503)
        if name.endswith("1.jsonl") and n <= 3:  # cut in the middle
            self.close_connection = True
            return self.answer(code, rest[:len(rest) // 2], Content_Length=str(len(rest)), **extra)
        if name.endswith("2.jsonl") and n <= 2:  # says that it is shorter than it is
            return self.answer(code, rest[:len(rest) // 3], Content_Length=str(len(rest) // 3), **extra)
        if name.endswith("3.jsonl") and n == 1:  # wrong bytes of the right number
            return self.answer(code, b"x" * len(rest), **extra)
        if name.endswith("parquet") and n == 1:  # no length at all, and cut
            self.close_connection = True
            self.send_response(code)
            self.end_headers()
            self.wfile.write(rest[:1000])
            return
        self.answer(code, rest, **extra)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
