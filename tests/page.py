#!/usr/bin/env python3
"""Asks the page of a run, as a browser, Prometheus and those who mean no good would: page.py DROVER, in a folder with
run.yaml. Exit status 0: all is as it should be."""
import contextlib, http.client, json, os, re, select, signal, socket, stat, sys, time
from started_run import PATIENCE, StartedRun

DROVER = sys.argv[1]


class Run(StartedRun):
    """A training run in the background, with a page or without."""

    def __init__(self, name, *sets):
        super().__init__(name, [DROVER], sets)

    def began(self):
        self.wait(lambda: self.steps() >= 3, "three steps")
        return self

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 3, self.said()
        assert not os.path.exists(f"{self.name}/http.json"), "http.json is left"

    def listening(self):
        """Local addresses of the process' listening sockets, as /proc writes them."""
        inodes = set()
        for fd in os.listdir(f"/proc/{self.process.pid}/fd"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(f"/proc/{self.process.pid}/fd/{fd}"))
        found = []
        for table in "tcp", "tcp6":
            with contextlib.suppress(OSError):
                for line in open(f"/proc/net/{table}").readlines()[1:]:
                    words = line.split()
                    if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                        found.append(words[1].split(":")[0])
        return found


def ask(address, path, method="GET", body=None, **headers):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    try:
        connection.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def raw(address, data, wait=PATIENCE):
    """Sends bytes; the status of the answer, 0 where the connection was closed without one."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=wait) as s:
        answer = b""
        with contextlib.suppress(OSError):
            s.sendall(data)
        with contextlib.suppress(OSError):
            while b"\r\n" not in answer:
                got = s.recv(4096)
                if not got:
                    break
                answer += got
        match = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
        return int(match[1]) if match else 0


def is_(got, expected, what):
    assert got == expected, f"{what}: {got!r}, expected {expected!r}"


# --- no port unless asked
quiet = Run("quiet").began()
is_(quiet.listening(), [], "listening without training.http")
assert not os.path.exists("quiet/http.json")
quiet.end()

# --- a port of its own
with open("metrics.token", "w") as f:
    f.write("tooshort\n")
run = Run("page", "training.http=0", "training.http_metrics_token_file=metrics.token", "training.log_every=1000")
run.began()
keys = run.wait(run.keys, "http.json")
address, token = keys["address"], keys["token"]
bearer = {"Authorization": f"Bearer {token}"}
is_(stat.S_IMODE(os.stat("page/http.json").st_mode), 0o600, "mode of http.json")
is_(run.listening(), ["0100007F"], "listening")
assert re.fullmatch(r"127\.0\.0\.1:\d+", address) and re.fullmatch(r"[0-9a-f]{32}", token), keys
assert f"page: http://{address}/ for this machine alone" in run.said()

# slow ones: begun now, looked at in the end
slow = []
for text in b"", b"GET / HTTP/1.1\r\nHost: a", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx":
    s = socket.create_connection(address.rsplit(":", 1), timeout=PATIENCE)
    s.sendall(text)
    slow.append((s, time.time()))

# --- what each path says, and to whom
run.wait(lambda: (json.loads(ask(address, "/api/status", **bearer)[2])["last_step"]["step"] or 0) >= 3, "three steps on the page")
for path, kind in {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript", "/api/status": "application/json",
                   "/api/metrics?from=2": "application/json", "/metrics": "text/plain; version=0.0.4"}.items():
    is_(ask(address, path)[0], 401, f"{path} without the token")
    is_(ask(address, path, Authorization="Bearer " + token[::-1])[0], 401, f"{path} with a wrong token")
    status, headers, body = ask(address, path, **bearer)
    is_(status, 200, path)
    assert headers["content-type"].startswith(kind) and body, headers
    assert headers["content-security-policy"].startswith("default-src 'self'"), headers
    is_((headers["cache-control"], headers["x-content-type-options"], headers["referrer-policy"]),
        ("no-store", "nosniff", "no-referrer"), path)
    assert not [name for name in headers if name.startswith("access-control")], "CORS"
    status, headers, body = ask(address, path, "HEAD", **bearer)
    is_((status, body), (200, ""), f"HEAD {path}")
for path in "/healthz", "/readyz":
    is_(ask(address, path)[0], 200, path)
page = ask(address, "/", **bearer)[2]
assert re.search(r"(running|saving): step \d+ of 1000000", page) and "<svg" in page and "k parameters, bf16" in page, page[:2000]
assert not re.search(r"<style|style=|<script>|\bon\w+=|https?://(?!www\.w3\.org/2000/svg)", page), "the policy forbids part of it"
assert len(ask(address, "/page.js", **bearer)[2]) < 4096
status = json.loads(ask(address, "/api/status", **bearer)[2])
assert status["state"] in ("running", "saving")
is_((status["status"]["steps"], len(status["ranks"])), (1000000, 1), "/api/status")
records = json.loads(ask(address, "/api/metrics?from=2", **bearer)[2])
is_([r["step"] for r in records["records"][:2]], [2, 3], "records")
assert "loss" in records["records"][0] and records["next"] > 3
metrics = ask(address, "/metrics", **bearer)[2]
for name in ("loss", "tokens_total", "step_seconds_bucket", "restarts_total", "goodput_ratio", "checkpoint_interval_steps"):
    assert f"\ndrover_{name}" in metrics, name
assert "rank=" not in metrics
run.wait(lambda: json.loads(ask(address, "/api/status", **bearer)[2])["last_step"]["step"] > status["last_step"]["step"],
         "a page that goes on")

# --- the token of the metrics alone, which rotates
is_(ask(address, "/metrics", Authorization="Bearer tooshort")[0], 401, "a short token")
assert "a token of 8 characters, expected 16" in run.said()
for own in "0123456789 abcdef", "one-that-is-long-enough", "and-after-it-another-one":
    with open("metrics.token", "w") as f:
        f.write(own + "\n")
    expected = 401 if " " in own else 200
    is_(ask(address, "/metrics", Authorization=f"Bearer {own}")[0], expected, own)
    is_(ask(address, "/api/status", Authorization=f"Bearer {own}")[0], 401, f"{own} elsewhere")
is_(ask(address, "/metrics", Authorization="Bearer one-that-is-long-enough")[0], 401, "the one before")

# --- a browser: a code for a cookie, once
code = keys["open"].removeprefix(f"http://{address}")
assert re.fullmatch(r"/\?code=[0-9a-f]{32}", code) and token not in code, keys
status, headers, body = ask(address, code)
is_((status, headers["location"], body), (303, "/", ""), "the code")
port = address.rsplit(":", 1)[1]
cookie = re.fullmatch(rf"(drover_{port}=[0-9a-f]{{32}}); Path=/; HttpOnly; SameSite=Strict", headers["set-cookie"])[1]
assert token not in cookie and code[-32:] not in cookie
is_(ask(address, "/", Cookie=f"a=b; {cookie}")[0], 200, "the cookie")
is_(ask(address, "/", Cookie=cookie[:-1] + "x")[0], 401, "another cookie")
is_(ask(address, code)[0], 401, "the code again")
renewed = run.keys()
assert renewed["open"] != keys["open"] and renewed["token"] == token
is_(stat.S_IMODE(os.stat("page/http.json").st_mode), 0o600, "mode of the renewed http.json")
is_(ask(address, renewed["open"].removeprefix(f"http://{address}"))[0], 303, "the renewed code")
is_(ask(address, f"/?token={token}")[0], 401, "the token in the address")

# --- other hosts and origins
for host in f"localhost:{port}", f"127.0.0.1:{port}", "[::1]", socket.gethostname():
    is_(ask(address, "/healthz", Host=host)[0], 200, host)
for host in "evil.example", f"127.0.0.1.evil.example:{port}", "":
    is_(ask(address, "/", Host=host, **bearer)[0], 403, f"Host {host}")
for origin in "http://evil.example", "null", f"https://{address}":
    is_(ask(address, "/api/status", Origin=origin, **bearer)[0], 403, f"Origin {origin}")
is_(ask(address, "/api/status", Origin=f"http://{address}", **bearer)[0], 200, "its own origin")

# --- those who mean no good: refused, or closed without an answer, and nothing is told
for method in "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW":
    is_(ask(address, "/", method, **bearer)[0], 405, method)
is_(ask(address, "/", body=b"x", **bearer)[0], 413, "a body")
for path in "/nope", "/http.json", "/checkpoints/", "/page.js/", "//", "/metrics.jsonl":
    is_(ask(address, path, **bearer)[0], 404, path)
for path in "/../../etc/passwd", "/%2e%2e/", "/..%2f", "/%00", "/healthz%00", "/a\\b", "/?x=1", "/api/metrics?from=-1", \
        "/api/metrics?from=1&from=2", "/api/metrics?from=" + "9" * 40, "/?" + "x" * 1100:
    is_(ask(address, path, **bearer)[0], 400, path)
head = f"Host: {address}\r\nAuthorization: Bearer {token}\r\n".encode()
REFUSED = 0, 400, 401, 403, 404, 405, 413, 414, 431, 501, 505
for data in (b"GET / HTTP/1.1\r\n" + head + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n",
             b"GET / HTTP/1.1\r\n" + head + b"".join(b"X%d: y\r\n" % i for i in range(50000)) + b"\r\n",
             b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
             b"GET /healthz\0/../x HTTP/1.1\r\nHost: a.b\r\n\r\n",
             b"GET /\0 HTTP/1.1\r\n" + head + b"\r\n",
             # What would be let in without its NUL, or by the first of two headers.
             b"GET /healthz HTTP/1.1\r\nHost: localhost\0.evil.example\r\n\r\n",
             b"GET /metrics HTTP/1.1\r\n" + head[:-2] + b"\0x\r\n\r\n",
             b"GET /metrics HTTP/1.1\r\n" + head + b"X: y\0\r\n\r\n", b"GET /metrics HTTP/1.1\r\n" + head + b"X\0: y\r\n\r\n",
             b"GET /metrics HTTP/1.1\r\n" + head + b"\0\r\n\r\n", b"GET\0 /metrics HTTP/1.1\r\n" + head + b"\r\n",
             b"GET /metrics HTTP/1.1\0\r\n" + head + b"\r\n", b"GET /api/metrics?from=1\0 HTTP/1.1\r\n" + head + b"\r\n",
             *(b"GET /metrics HTTP/1.1\r\n" + head + again + b"\r\n\r\n" for again in (
                 b"Host: evil.example", b"Authorization: Bearer x", b"Content-Length: 0\r\nContent-Length: 5",
                 f"Origin: http://{address}".encode() + b"\r\nOrigin: http://evil.example")),
             b"\0" * 5000, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 40, b"\r\n" * 20000,
             b"GET\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n" + head + b"\r\n", b"POST / HTTP/1.1\r\n\r\n",
             b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
             b"GET / HTTP/1.1\r\n" + head + b"Content-Length: -5\r\n\r\n",
             b"GET / HTTP/1.1\r\n" + head + b"Content-Length: 99999999999999999999999\r\n\r\n",
             b"GET / HTTP/1.1\r\n" + head.replace(b"\r\n", b"\r\n ", 1) + b"\r\n",
             bytes(range(256)) * 64):
    got = raw(address, data)
    assert got in REFUSED, f"{data[:60]!r}: {got}"
    assert run.process.poll() is None, f"{data[:60]!r}: {run.said()}"
for good in (b"GET /metrics HTTP/1.1\r\n" + head + b"X:y \r\nY:\t z\r\nEmpty:\r\n\r\n",
             b"GET /api/metrics?from=1 HTTP/1.1\n" + head.replace(b"\r", b"") + b"\n",
             b"GET /metrics HTTP/1.0\r\n" + head[:-2] + b"  \r\nContent-Length: 0\r\n\r\n"):
    is_(raw(address, good), 200, good)
crowd = []
for _ in range(600):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((address.rsplit(":", 1)[0], int(port)))
    crowd.append(s)
before = run.steps()
run.wait(lambda: run.steps() > before + 5, "steps beside a crowd")
for s in crowd:
    s.close()
is_(ask(address, "/healthz")[0], 200, "after the crowd")
# Strangers who hold all places with half requests, and come again when they are sent away: a probe is still answered before they
# would have to go by themselves, which is after 10 s.
def stranger():
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((address.rsplit(":", 1)[0], int(port)))
    return s
crowd = [stranger() for _ in range(200)]
for s in crowd:
    with contextlib.suppress(OSError):
        select.select([], [s], [], 0.05)
        s.send(b"GET / HTTP/1.1\r\nHost: local")
began, answered = time.time(), []
while len(answered) < 3 and time.time() - began < PATIENCE:
    for i, s in enumerate(crowd):
        with contextlib.suppress(BlockingIOError):
            gone = True
            with contextlib.suppress(ConnectionError):
                gone = not s.recv(4096)
            if gone:
                s.close()
                crowd[i] = stranger()
    start = time.time()
    with contextlib.suppress(OSError):
        is_(ask(address, "/healthz")[0], 200, "beside strangers")
        answered.append(time.time() - start)
assert answered and sorted(answered)[len(answered) // 2] < 5, answered
for s in crowd:
    s.close()

# --- the slow ones
for s, since in slow:
    with contextlib.suppress(OSError):
        while s.recv(4096):
            pass
    assert time.time() - since < PATIENCE, "a slow one stays"
    s.close()

# --- the end
run.end()
everything = run.said() + open("page/log.txt").read() + open("page/config.yaml").read()
for secret in token, code[-32:], renewed["open"][-32:], cookie[-32:]:
    assert secret not in everything, "a secret is in the log"
assert "warning: page" not in run.said().replace("warning: page: \"metrics.token\"", "")

# --- a port that is taken: the run goes on; one for others says so
with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    busy = Run("busy", f"training.http={taken.getsockname()[1]}").began()
    assert "Address already in use; training continues without it" in busy.said(), busy.said()
    assert busy.keys() is None
    busy.end()
wide = Run("wide", "training.http=0.0.0.0:0").began()
wide.wait(wide.keys, "http.json")
assert "is open to other machines (training.http: 0.0.0.0:0)" in wide.said(), wide.said()
is_(wide.listening(), ["00000000"], "listening for all")
here = "127.0.0.1:" + wide.keys()["address"].rsplit(":", 1)[1]
wide.wait(lambda: ask(here, "/readyz")[0] == 200, "/readyz")  # 503 until all ranks have reported
wide.end()
