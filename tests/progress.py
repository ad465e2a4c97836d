#!/usr/bin/env python3
"""Runs whose progress is posted to servers that take it, or do not: progress.py DROVER, in a folder with run.yaml, ca.pem,
other.pem, server.pem and server.key. Exit status 0: all is as it should be."""
import json, os, re, signal, socket, sys, time
from started_run import PATIENCE, StartedRun
from tls_server import Server

DROVER = sys.argv[1]


class Run(StartedRun):
    def __init__(self, name, port, ca="ca.pem", url=None, last_s="2", **more):
        self.token_file = f"{name}.token"
        self.rotate(f"token-{name}-first")
        names = dict(URL=url or f"https://localhost:{port}/apis/trainjobs/a/status?secret=in-the-url", CA_CERT=ca,
                     TOKEN=self.token_file)
        names.update(more)
        env = dict(os.environ, DROVER_THREADS="1", DROVER_PROGRESS_LAST_S=last_s, https_proxy="http://127.0.0.1:1", HTTPS_PROXY="http://127.0.0.1:1",
                   **{f"KUBEFLOW_TRAINER_SERVER_{k}": v for k, v in names.items() if v is not None})
        self.begun = time.time()
        super().__init__(name, [DROVER], ["training.log_every=1000"], env)

    def rotate(self, token):
        with open(f"{self.token_file}.new", "w") as f:
            f.write(token + "\n")
        os.rename(f"{self.token_file}.new", self.token_file)

    def warnings(self):
        return re.findall(r"^warning: (progress: .*)$", self.said(), re.M)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 3, self.said()
        everything = self.said() + open(f"{self.name}/log.txt").read()
        assert "token-" not in everything and "in-the-url" not in everything, f"{self.name}: a secret is in the log"


def check_body(post, run, token):
    _, path, authorization, kind, body = post
    assert path == "/apis/trainjobs/a/status?secret=in-the-url", path
    assert authorization == f"Bearer {token}" and kind == "application/json", (authorization, kind)
    all_of_it = json.loads(body)
    assert list(all_of_it) == ["trainerStatus"] and len(body) < 65536, body
    status = all_of_it["trainerStatus"]
    assert set(status) <= {"progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime"}, status
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", status["lastUpdatedTime"]), status
    assert 0 <= status["progressPercentage"] <= 100 and status.get("estimatedRemainingSeconds", 0) >= 0
    assert len(status["metrics"]) <= 16
    for metric in status["metrics"]:
        assert set(metric) == {"name", "value"} and isinstance(metric["value"], str), metric
    return {m["name"]: m["value"] for m in status["metrics"]}


servers = {name: Server(status) for name, status in
           {"good": 200, "refuses": 401, "breaks": 500, "redirects": 302, "silent": 0, "stranger": 200}.items()}
nobody = socket.socket()  # has a port and does not listen: nobody else can, either
nobody.bind(("127.0.0.1", 0))
gone = nobody.getsockname()[1]
runs = {name: Run(name, server.port, "other.pem" if name == "stranger" else "ca.pem", last_s=str(PATIENCE if name == "good" else 2))
        for name, server in servers.items()}
runs["gone"] = Run("gone", gone)
runs["half"] = Run("half", gone, CA_CERT=None)
runs["plain"] = Run("plain", gone, url=f"http://localhost:{servers['good'].port}/")
for run in runs.values():
    run.wait(lambda: run.steps() > 3, "steps")

# --- one that takes them: at once, 10 s later, and at the end with the token of then
good, posts = runs["good"], servers["good"].posts
assert f"progress: posted every 10 s to localhost, port {servers['good'].port} " in good.said(), good.said()
good.wait(lambda: len(posts) >= 2, "a second post")
assert posts[1][0] - good.begun > 9.9, "a second post too soon"  # 10 s after its thread began, however late the first came
for post in posts[:2]:
    check_body(post, good, "token-good-first")
assert "loss" in check_body(posts[1], good, "token-good-first")
good.rotate("token-good-second")
n = len(posts)
good.end()
assert len(posts) > n, "nothing at the end"
last = check_body(posts[-1], good, "token-good-second")
assert int(last["step"]) > 3 and float(last["loss"]) > 0, last
assert not good.warnings(), good.warnings()

# --- the others: said once, and the run goes on
for name, text in {"refuses": "the server refuses the token of KUBEFLOW_TRAINER_SERVER_TOKEN (401)",
                   "breaks": "the server answered 500", "redirects": "the server answered 302",
                   "stranger": "SSL peer certificate", "gone": "Couldn't connect to server",
                   "silent": "Timeout was reached", "half": "KUBEFLOW_TRAINER_SERVER_CA_CERT is not set",
                   "plain": "KUBEFLOW_TRAINER_SERVER_URL is not https://"}.items():
    run = runs[name]
    run.wait(run.warnings, "a warning")
    before = run.steps()
    run.wait(lambda: run.steps() > before + 3, "steps after it")
    run.end()
    assert len(run.warnings()) == 1 and text in run.warnings()[0], f"{name}: {run.warnings()}"
assert not servers["stranger"].posts, "a server of another CA got the token"
assert all(post[2].startswith("Bearer token-good-") for post in servers["good"].posts), "a post over plain HTTP"
