#!/usr/bin/env python3
"""A hub for tests/push.sh: repositories, branches, preupload, Git LFS in one piece or in parts, commits, downloads, as
huggingface_hub's client knows them, and faults on demand. Prints two ports, the hub's and its storage's, then a line
for each request: method, path, whether the token came with it, status.

POST /fault {"at": regular expression of "METHOD path", "do": what, "times": N}. `do` is a status of HTTP; drop: half of the
body is read and the connection closed; lost: what was asked for is done and not answered; hold: neither read nor
answered; stale: somebody else commits before; truncate PATH: a file here loses half of its bytes before; or {"status": N, "body": text, "headers": {}}.
GET /file/ORG/NAME/BRANCH/PATH: the bytes that are there. The token is "hf_secret".
"""
import base64, hashlib, http.server, json, re, sys, threading, urllib.parse

TOKEN, CHUNK = "hf_secret", int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 16
LOCK = threading.RLock()
REPOS, OBJECTS, UPLOADS, FAULTS = {}, {}, {}, []


def say(*words):  # one write for a line, whichever threads answer
    with LOCK:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


def git_hash(body):
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


class Repo:
    def __init__(self, private):
        self.private, self.branches, self.commits, self.n_requests = private, {}, {}, 0
        self.commit("main", {".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n"}, "initial commit", None)

    def commit(self, branch, files, summary, parent):
        old = self.branches.get(branch, {"files": {}, "log": []})
        text = json.dumps([sorted(files), summary, parent, len(old["log"]), branch])
        oid = hashlib.sha1(text.encode()).hexdigest()
        self.branches[branch] = self.commits[oid] = {"files": {**old["files"], **files}, "log": old["log"] + [(oid, summary)]}
        return oid

    def at(self, revision):  # a branch or a commit
        return self.branches.get(revision) or self.commits.get(revision)

    def head(self, revision):
        return self.at(revision)["log"][-1][0]


def is_lfs(path, size, sample):
    return path.endswith((".safetensors", ".bin", ".gguf")) or size > 10 << 20 or b"\0" in sample


def content(name, entry):  # bytes, or the oid of an object of the repository
    return OBJECTS[name, entry] if isinstance(entry, str) else entry


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def answer(self, code, body=b"", **headers):
        say(self.command, self.path.split("?")[0], "token" if self.headers.get("Authorization") else "-", code)
        if self.lost:
            self.close_connection = True
            return
        self.send_response(code)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, value, code=200, **headers):
        self.answer(code, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def fail(self, code, text, **headers):
        self.json({"error": text}, code, X_Error_Message=text, **headers)

    def fault(self):
        """Does what is to go wrong with this request; true: it is over."""
        with LOCK:
            mine = next((f for f in FAULTS if re.search(f["at"], f"{self.command} {self.path}") and f["times"] > 0), None)
            if mine:
                mine["times"] -= 1
        do = mine and mine["do"]
        if isinstance(do, int):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.fail(do, "on demand", Retry_After="0")
        elif isinstance(do, dict):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer(do.get("status", 200), do["body"].encode("utf-8", "surrogateescape"), **do.get("headers", {}))
        elif do == "drop":
            self.rfile.read(int(self.headers.get("Content-Length", 0)) // 2)
            self.close_connection = True
            say("dropped", self.command, self.path.split("?")[0])
        elif do == "hold":
            say("held", self.command, self.path.split("?")[0])
            self.rfile.read()
            self.close_connection = True
        elif do == "stale":
            repo = REPOS[re.search(r"/models/([^/]+/[^/]+)/", self.path)[1]]
            with LOCK:
                repo.commit("main", {"OTHER.md": b"somebody else's\n"}, "another", repo.head("main"))
            return False
        elif do and do.startswith("truncate "):
            with open(do[9:], "r+b") as f:
                f.truncate(f.seek(0, 2) // 2)
            return False
        elif do == "lost":
            self.lost = True
            return False
        return bool(do)

    def handle_request(self):
        self.lost = False
        path, _, query = self.path.partition("?")
        if self.command == "POST" and path == "/fault":
            FAULTS.append({"times": 1, **json.loads(self.rfile.read(int(self.headers["Content-Length"])))})
            return self.answer(200)
        if self.fault():
            return
        self.query = dict(urllib.parse.parse_qsl(query))
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        storage = self.server is STORAGE
        for method, pattern, function, public in self.routes:
            found = re.fullmatch(pattern, path)
            if method == self.command.replace("HEAD", "GET") and found and storage == (function is Handler.put):
                if not public and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    return self.fail(401, "Invalid username or password.")
                with LOCK:
                    return function(self, *map(urllib.parse.unquote, found.groups()))
        self.fail(404, "no such route")

    do_GET = do_POST = do_PUT = do_HEAD = handle_request

    def repo(self, name, branch=None):
        repo = REPOS.get(name)
        if not repo:
            self.fail(404, "Repository not found", X_Error_Code="RepoNotFound")
        elif branch is not None and not repo.at(branch):
            self.fail(404, f"Invalid rev id: {branch}", X_Error_Code="RevisionNotFound")
        else:
            return repo

    def whoami(self):
        self.json({"name": "org", "type": "user", "orgs": [], "auth": {"accessToken": {"role": "write"}}})

    def create(self):
        asked = json.loads(self.body)
        name = f"{asked.get('organization') or 'org'}/{asked['name']}"
        if not name.startswith("org/"):
            return self.fail(403, "You don't have the rights to create a model under this namespace")
        if name in REPOS:
            return self.json({"error": "You already created this model repo", "url": f"http://{self.headers['Host']}/{name}"}, 409)
        REPOS[name] = Repo(asked.get("visibility") == "private")
        self.json({"url": f"http://{self.headers['Host']}/{name}", "name": name, "id": name})

    def info(self, name, branch="main"):
        repo = self.repo(name, branch)
        if repo:
            self.json({"id": name, "modelId": name, "sha": repo.head(branch), "private": repo.private, "tags": [], "downloads": 0,
                       "siblings": [{"rfilename": p} for p in repo.at(branch)["files"]]})

    def branch(self, name, branch):
        repo = self.repo(name)
        if repo and branch in repo.branches:
            return self.fail(409, "Reference already exists")
        if repo:
            repo.branches[branch] = dict(repo.branches["main"])
            self.answer(200, b"OK")

    def yaml(self):
        text = json.loads(self.body)["content"]
        bad = text.startswith("---") and "\n---" not in text[3:]
        self.json({"errors": [{"message": "the header does not end"}] if bad else [], "warnings": []}, 400 if bad else 200)

    def preupload(self, name, branch):
        repo = self.repo(name, branch)
        if not repo:
            return
        out, there = [], repo.branches[branch]["files"]
        for f in json.loads(self.body)["files"]:
            lfs = is_lfs(f["path"], f["size"], base64.b64decode(f["sample"], validate=True))
            entry = there.get(f["path"])
            oid = entry if isinstance(entry, str) or entry is None else git_hash(entry)
            out.append({"path": f["path"], "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": f["path"] == "NOTICE.ignored",
                        **({"oid": oid} if oid else {})})
        self.json({"files": out, "commitOid": repo.head(branch)})

    def batch(self, name):
        if not self.repo(name):
            return
        asked, out = json.loads(self.body), []
        assert asked["operation"] == "upload" and asked["hash_algo"] == "sha256" and "multipart" in asked["transfers"]
        storage = f"http://localhost:{STORAGE.server_port}/s3/"
        for o in asked["objects"]:
            entry = {"oid": o["oid"], "size": o["size"]}
            if (name, o["oid"]) not in OBJECTS:
                key = str(len(UPLOADS))
                UPLOADS[key] = {**entry, "repo": name, "parts": {}, "chunk": CHUNK if o["size"] > CHUNK else None}
                hub = f"http://{self.headers['Host']}/"
                action = {"href": f"{storage}{key}/0?sig=x"}
                if o["size"] > CHUNK:
                    n = -(-o["size"] // CHUNK)
                    action = {"href": f"{hub}api/complete_multipart/{key}", "header": {"chunk_size": str(CHUNK), **{
                        f"{i:05d}": f"{storage}{key}/{i}?sig=x" for i in range(1, n + 1)}}}
                entry["actions"] = {"upload": action, "verify": {"href": f"{hub}{name}.git/info/lfs/objects/verify"}}
            out.append(entry)
        self.json({"transfer": "multipart", "objects": out})

    def put(self, key, number):
        upload, n = UPLOADS.get(key), int(number)
        if not upload or self.query.get("sig") != "x" or self.headers.get("Authorization"):
            return self.answer(403)
        if n == 0:
            if hashlib.sha256(self.body).hexdigest() != upload["oid"]:
                return self.answer(400)
            OBJECTS[upload["repo"], upload["oid"]] = self.body
            return self.answer(200)
        if len(self.body) != min(CHUNK, upload["size"] - (n - 1) * CHUNK):
            return self.answer(400)
        upload["parts"][n] = self.body
        self.answer(200, ETag='"%s"' % hashlib.md5(self.body).hexdigest())

    def complete(self, key):
        upload, asked = UPLOADS.get(key), json.loads(self.body)
        if not upload or asked["oid"] != upload["oid"]:
            return self.fail(404, "no such upload")
        body = b""
        for i, part in enumerate(asked["parts"], 1):
            have = upload["parts"].get(i, b"")
            if part["partNumber"] != i or part["etag"].strip('"') != hashlib.md5(have).hexdigest():
                return self.fail(400, f"part {i} is not the one that arrived")
            body += have
        if hashlib.sha256(body).hexdigest() != upload["oid"]:
            return self.fail(400, "the parts do not make the object")
        OBJECTS[upload["repo"], upload["oid"]] = body
        self.json({"success": True})

    def verify(self, name):
        asked = json.loads(self.body)
        good = len(OBJECTS.get((name, asked["oid"]), b"")) == asked["size"]
        self.answer(200 if good else 404)

    def commit(self, name, branch):
        repo = self.repo(name, branch)
        if not repo:
            return
        lines, files = [json.loads(l) for l in self.body.decode().splitlines()], {}
        head, values = lines[0]["value"], lines[1:]
        parent = head.get("parentCommit")
        if parent and parent != repo.head(branch) and "create_pr" not in self.query:
            return self.fail(412, "A commit has happened since. Please refresh and try again.")
        for line in values:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"], validate=True)
            elif line["key"] == "lfsFile" and len(OBJECTS.get((name, value["oid"]), b"")) == value["size"]:
                files[value["path"]] = value["oid"]
            else:
                return self.fail(400, f"{line['key']} {value['path']}: no such object")
        host, out = f"http://{self.headers['Host']}/{name}", {}
        if "create_pr" in self.query:
            repo.n_requests += 1
            repo.branches[f"refs/pr/{repo.n_requests}"] = dict(repo.branches[branch])
            branch = f"refs/pr/{repo.n_requests}"
            out = {"pullRequestUrl": f"{host}/discussions/{repo.n_requests}"}
        oid = repo.commit(branch, files, head["summary"], parent)
        self.json({"success": True, "commitOid": oid, "commitUrl": f"{host}/commit/{oid}", "hookOutput": "", **out})

    def tree(self, name, branch):
        repo = self.repo(name, branch)
        if not repo:
            return
        out = []
        for path, entry in sorted(repo.at(branch)["files"].items()):
            body = content(name, entry)
            lfs = {"lfs": {"oid": entry, "size": len(body), "pointerSize": 134}} if isinstance(entry, str) else {}
            out.append({"type": "file", "path": path, "size": len(body), "oid": git_hash(body), **lfs})
        self.json(out)

    def resolve(self, name, branch, path):
        repo = self.repo(name, branch)
        if repo and path in repo.at(branch)["files"]:
            body = content(name, entry := repo.at(branch)["files"][path])
            tag = entry if isinstance(entry, str) else git_hash(body)
            return self.answer(200, body, X_Repo_Commit=repo.head(branch), ETag=f'"{tag}"')
        if repo:
            self.fail(404, "Entry not found", X_Error_Code="EntryNotFound")

    def log(self, name, branch):
        self.answer(200, "".join(f"{oid} {summary}\n" for oid, summary in REPOS[name].branches[branch]["log"]).encode())

    R, N = "([^/]+/[^/]+)", "([^/]+)"
    routes = [
        ("GET", "/api/whoami-v2", whoami, False), ("POST", "/api/repos/create", create, False),
        ("GET", f"/api/models/{R}", info, False), ("GET", f"/api/models/{R}/revision/{N}", info, False),
        ("POST", f"/api/models/{R}/branch/{N}", branch, False), ("POST", "/api/validate-yaml", yaml, True),
        ("POST", f"/api/models/{R}/preupload/{N}", preupload, False), ("POST", f"/{R}.git/info/lfs/objects/batch", batch, False),
        ("POST", f"/{R}.git/info/lfs/objects/verify", verify, False), ("POST", "/api/complete_multipart/(.*)", complete, True),
        ("POST", f"/api/models/{R}/commit/{N}", commit, False), ("PUT", f"/s3/{N}/{N}", put, True),
        ("GET", f"/api/models/{R}/tree/{N}", tree, False), ("GET", f"/{R}/resolve/{N}/(.*)", resolve, False),
        ("GET", f"/file/{R}/{N}/(.*)", resolve, True), ("GET", f"/log/{R}/{N}", log, True),
    ]


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):  # who is cut off needs no trace
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, address)


HUB, STORAGE = (Server(("127.0.0.1", 0), Handler) for _ in range(2))
say(HUB.server_port, STORAGE.server_port)
threading.Thread(target=STORAGE.serve_forever, daemon=True).start()
HUB.serve_forever()
