#!/usr/bin/env python3
"""Looks at the page of a run with Chromium, by its DevTools protocol on a pipe: browser.py DROVER [PICTURE.png], in a folder
with run.yaml. PICTURE.png gets what is seen. Exit status 0: all is as it should be."""
import atexit, base64, json, os, re, select, signal, subprocess, sys, time

DROVER, PICTURE = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
PATIENCE = 120  # seconds; other tests run beside this one


class Browser:
    """Chromium; `ask` sends a command and waits for its answer, events that come meanwhile are kept."""

    def __init__(self):
        self.to, self.back = os.pipe(), os.pipe()
        words = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                 f"--user-data-dir={os.getcwd()}/profile", "--remote-debugging-pipe", "--window-size=1000,1400", "about:blank"]
        # The browser reads commands from descriptor 3 and writes answers to 4.
        line = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        self.process = subprocess.Popen(["bash", "-c", line, "bash", str(self.to[0]), str(self.back[1]), *words],
                                        pass_fds=(self.to[0], self.back[1]), stderr=open("chromium.log", "w"),
                                        env=dict(os.environ, HOME=os.getcwd()))
        atexit.register(self.process.kill)
        os.close(self.back[1])
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.ask(f"{domain}.enable")

    def read(self, until):
        while b"\0" not in self.buffer:
            left = until - time.time()
            if left <= 0 or not select.select([self.back[0]], [], [], left)[0]:
                raise AssertionError(f"Chromium does not answer: {open('chromium.log').read()[-2000:]}")
            got = os.read(self.back[0], 1 << 20)
            assert got, f"Chromium has ended: {open('chromium.log').read()[-2000:]}"
            self.buffer += got
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def ask(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.to[1], json.dumps(command).encode() + b"\0")
        until = time.time() + PATIENCE
        while True:
            answer = self.read(until)
            if answer.get("id") == self.number:
                assert "result" in answer, f"{method}: {answer}"
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression, why):
        until = time.time() + PATIENCE
        while time.time() < until:
            found = self.value(f"(v => v instanceof Node || v)({expression})")
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"waited in vain: {why}: {self.value('document.documentElement.outerHTML')[:3000]}")

    def picture(self, name):
        with open(name, "wb") as f:
            f.write(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


def complaints(events):
    """What the browser has refused, and requests to anywhere but `address`."""
    for event in events:
        params = event.get("params", {})
        if event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            yield params["entry"]["text"] + " " + params["entry"].get("url", "")
        if event.get("method") == "Runtime.exceptionThrown":
            yield json.dumps(params["exceptionDetails"])
        if event.get("method") == "Network.requestWillBeSent" and not params["request"]["url"].startswith(f"http://{address}/"):
            yield "asks " + params["request"]["url"]


run = subprocess.Popen([DROVER, "train", "run.yaml", "--set", "run_dir=seen", "--set", "training.steps=1000000", "--set",
                        "training.http=0", "--set", "training.eval_every=50", "--set", "data.split=[990, 10, 0]"],
                       stderr=open("seen.out", "w"))
atexit.register(run.kill)
until = time.time() + PATIENCE
while not (os.path.exists("seen/http.json") and os.path.exists("seen/metrics.jsonl")):
    assert run.poll() is None and time.time() < until, open("seen.out").read()
    time.sleep(0.05)
keys = json.load(open("seen/http.json"))
address = keys["address"]
browser = Browser()

# --- the address of http.json opens it, and does not stay in the bar
browser.ask("Page.navigate", url=keys["open"])
browser.wait("document.readyState == 'complete' && document.querySelector('.verdict')", "a page")
assert browser.value("location.href") == f"http://{address}/", browser.value("location.href")
assert browser.value("document.cookie") == "", "scripts see the cookie"
assert browser.value("getComputedStyle(document.querySelector('.verdict')).fontWeight") == "700", "no style"

# --- it lives
CURVE = "(document.querySelector('svg[viewBox] path.mean[d*=L]') || {getAttribute() {}}).getAttribute('d')"
curve = browser.wait(CURVE, "a curve")
step = browser.value("document.querySelector('.verdict').textContent")
browser.wait(f"({CURVE}) && ({CURVE}) != {json.dumps(curve)}", "a curve that moves")
browser.wait(f"document.querySelector('.verdict').textContent != {json.dumps(step)}", "a step that goes on")
found = list(complaints(browser.events))
assert not [text for text in found if "favicon" not in text], found
if PICTURE:
    browser.wait("(document.body.textContent.match(/step (\\d+) of/) || [])[1] > 300", "300 steps")
    browser.picture(PICTURE)

# --- without JavaScript its text is there
browser.ask("Emulation.setScriptExecutionDisabled", value=True)
browser.ask("Page.navigate", url=f"http://{address}/")
text, until = "", time.time() + PATIENCE
while not (re.search(r"(running|saving): step \d+ of 1000000", text) and "Where the time went" in text):
    assert time.time() < until, text[:3000]
    time.sleep(0.1)
    text = browser.ask("DOM.getDocument", depth=0) and browser.ask("Page.captureSnapshot")["data"]
browser.ask("Emulation.setScriptExecutionDisabled", value=False)

# --- a run that has ended is said to
browser.ask("Page.navigate", url=f"http://{address}/")
browser.wait("document.querySelector('.verdict')", "the page again")
run.send_signal(signal.SIGTERM)
assert run.wait(PATIENCE) == 3, open("seen.out").read()
browser.wait("document.getElementById('live') && document.getElementById('live').textContent.includes('does not answer')", "its end")
assert browser.value("document.querySelector('.verdict') != null"), "nothing is left on the page"

# --- the report from the disk
subprocess.run([DROVER, "report", "seen", "--out", "seen.html"], check=True, stderr=subprocess.DEVNULL)
browser.events.clear()
address = "nowhere"
browser.ask("Page.navigate", url=f"file://{os.getcwd()}/seen.html")
browser.wait("document.querySelector('.verdict') && document.querySelector('svg[viewBox] path.mean')", "the report")
found = [text for text in complaints(browser.events) if "seen.html" not in text]
assert not found, found
