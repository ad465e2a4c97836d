#!/usr/bin/env python3
"""A hub that misbehaves, for tests/get.sh: cuts connections, lies about lengths, is too busy, ignores
ranges. Prints its port, then a line for each request.

Data sets: good/set (two configs, two pages of the list), gated/set, private/set (needs the token "secret").
Models: good/llama (shards), old (no ORG, one file), good/pickled (no safetensors), good/other (neither), good/empty (no config), gated/model.
"""
import hashlib, http.server, json, random, struct, sys, threading

rng = random.Random(5)
FILES = {f"data/part {i}.jsonl": b"".join(b'{"text": "%d of %d"}\n' % (k, i) for k in range(2000 + 3000 * i)) for i in range(4)}
FILES["sample/10BT/a.parquet"] = bytes(rng.randrange(256) for _ in range(300000))
FILES["README.md"] = b"# a card\n"
MODELS = {  # repository: names, of which each file holds its own name many times
    "good/llama": "config.json generation_config.json tokenizer.json tokenizer_config.json special_tokens_map.json "
                  "chat_template.jinja model.safetensors.index.json model-00001-of-00002.safetensors "
                  "model-00002-of-00002.safetensors consolidated.safetensors pytorch_model.bin README.md LICENSE "
                  "original/consolidated.00.pth onnx/model.onnx original/tokenizer.model llama.gguf".split(),
    "old": "config.json model.safetensors tokenizer.json merges.txt vocab.json pytorch_model.bin".split(),
    "good/pickled": "config.json pytorch_model-00001-of-00002.bin pytorch_model-00002-of-00002.bin pytorch_model.bin.index.json "
                    "optimizer.bin training_args.bin consolidated.00.pth".split(),
    "good/other": "config.json model.gguf tf_model.h5 adapter_model.bin".split(),
    "good/empty": "model.safetensors README.md".split(),
}


def model_file(repo, name):
    return f"{repo} {name}\n".encode() * 3000


IDS = struct.pack("<256i", 20240520, 1, 6, *[0] * 253) + struct.pack("<6H", 0, 7, 8, 0, 9, 5)  # as llm.c writes them
SEEN = {}  # path: number of requests so far
LOCK = threading.Lock()


def entry(path, body=None):
    body = FILES[path] if body is None else body
    e = dict(type="file", path=path, size=len(body), oid=hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest())
    if path.endswith(("parquet", "safetensors", "bin")):
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
        if path.startswith(("/api/datasets/gated/", "/api/models/gated/")):
            return self.answer(403, X_Error_Code="GatedRepo")
        if path.startswith(("/api/datasets/private/", "/datasets/private/")) and self.headers.get("Authorization") != "Bearer secret":
            return self.answer(401)
        if path.startswith(("/api/datasets/odd/", "/datasets/odd/")):
            return self.odd(path, query)
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
        if path.startswith("/api/models/"):
            repo = path[len("/api/models/"):].split("/tree/")[0]
            if repo not in MODELS:
                return self.answer(401, X_Error_Code="RepoNotFound")
            folders = [dict(type="directory", path="original", size=0, oid="0" * 40)]
            return self.json(folders + [entry(p, model_file(repo, p)) for p in MODELS[repo]])
        if "/resolve/" in path and not path.startswith("/datasets/"):
            repo, name = path[1:].split("/resolve/")
            name = name.split("/", 1)[1]
            if name not in MODELS.get(repo, []):
                return self.answer(404)
            return self.bytes(model_file(repo, name), n, cut="00002" in name)
        if "/resolve/" in path:
            return self.file(path.split("/resolve/")[-1].split("/", 1)[1], n, ranges=True)
        if path.startswith("/plain/"):
            return self.file(path[len("/plain/"):], n, ranges=False)
        if path == "/elsewhere":
            return self.answer(302, Location="http://localhost:%d/plain/README.md" % self.server.server_port)
        self.answer(404)

    def odd(self, path, query):
        """odd/self and odd/circle: lists whose pages lead back; odd/empty: nothing but next pages; odd/twice: two files
        of one name; odd/again: one file twice; odd/long: more bytes than are listed; odd/splits: splits that the card alone knows;
        odd/ids: a file of token ids; odd/mixed: one beside a text."""
        repo, host = path.split("/odd/")[1].split("/")[0], self.headers["Host"]
        a, b = "a/rows.jsonl", "b/rows.jsonl"
        body = b'{"text": "a"}\n'
        page = int(query.split("page=")[1]) if "page=" in query else 0
        link = {"self": self.path, "circle": f"{path}?page={page % 3 + 1}", "empty": f"{path}?page={page + 1}"}
        if "/revision/" in path:
            files = [dict(split="train", path="a/*"), dict(split="heldout_test", path="b/*")] if repo == "splits" else []
            return self.json(dict(cardData=dict(configs=[dict(config_name="default", data_files=files)])))
        if "/tree/" not in path:
            return self.answer(200, body * 300000 if repo == "long" else IDS if path.endswith(".bin") else body)
        one, other = entry(a, body), entry(b, body)
        pages = {"empty": [], "twice": [one, entry(a, body + body)], "again": [one, one], "mixed": [one, entry("train.bin", IDS)],
                 "ids": [entry("train.bin", IDS), entry("README.md", body), entry("sizes.json", body)]}
        extra = dict(Link=f'<http://{host}{link[repo]}>; rel="next"') if repo in link else {}
        self.json(pages.get(repo, [one, other]), **extra)

    def bytes(self, body, n, cut):
        """With ranges; cut off in the middle the first time."""
        first = int((self.headers.get("Range") or "bytes=0-").split("=")[1].split("-")[0])
        rest, extra = body[first:], {}
        if first:
            extra = dict(Content_Range="bytes %d-%d/%d" % (first, len(body) - 1, len(body)))
        self.close_connection = cut and n == 1
        if cut and n == 1:
            return self.answer(200, rest[:len(rest) // 2], Content_Length=str(len(rest)))
        self.answer(206 if first else 200, rest, **extra)

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
