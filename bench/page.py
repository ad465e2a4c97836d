#!/usr/bin/env python3
"""What a page costs a run: usage: bench/page.py DROVER [CONFIG [--set KEY=VALUE]...] (without CONFIG: llama-15m, two rows of
256 tokens a step). Eleven minutes; needs two cores of its own.

One run with training.http. Blocks of SECONDS (BLOCK_S, 5) with a scrape of /metrics and a look at /api/status a second stand
beside blocks without, in turn (the order of each pair changes): means of step_s of both, and their ratio for each of PAIRS (60).
What the thread of the page takes of the processor is read from /proc, which no other program disturbs: caches apart, a step
waits at most that long for it. Then 10,000 connections. Exit status 1: the median of the ratios is above 1.005, or the run has ended; "undecided" is
said where twice its standard error is more than 0.005.
"""
import contextlib, http.client, json, math, os, shutil, signal, socket, statistics, sys, tempfile, time
import small_run

CONFIG = """\
model: {preset: llama-15m, vocab_size: 400}
data: {train: data/set, split: [100, 0, 0], sequence_length: 256}
training: {steps: 1000000, global_batch_size: 2, eval_every: 0, log_every: 100}
checkpoint: {every: 0}
"""
PAIRS, SECONDS = int(os.environ.get("PAIRS", "60")), float(os.environ.get("BLOCK_S", "5"))
drover, words = os.path.realpath(sys.argv[1]), sys.argv[2:]
folder = tempfile.mkdtemp(prefix="page-")
run_dir = f"{folder}/run"
if not words:
    os.chdir(folder)
    small_run.make(drover, CONFIG)
    words = ["run.yaml"]
run = small_run.start([drover, "train", *words, "--set", f"run_dir={run_dir}", "--set", "training.http=0", "--set",
                       "training.http_ranks=true"], stderr=open(f"{folder}/err", "w"))


def steps():
    with contextlib.suppress(OSError):
        return [json.loads(line)["step_s"] for line in open(f"{run_dir}/metrics.jsonl") if line.endswith("\n") and "step_s" in line]
    return []


def ask(path):
    c = http.client.HTTPConnection(*keys["address"].rsplit(":", 1), timeout=60)
    c.request("GET", path, headers={"Authorization": "Bearer " + keys["token"]})
    assert c.getresponse().read()
    c.close()


def ticks():
    """Clock ticks of each thread."""
    found = {}
    for task in os.listdir(f"/proc/{run.pid}/task"):
        words = open(f"/proc/{run.pid}/task/{task}/stat").read().rsplit(")", 1)[1].split()
        found[task] = (int(words[16]), (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"))
    return found


def page_seconds():
    return sum(seconds for nice, seconds in ticks().values() if nice == 10)


def block(asks):
    first, until = len(steps()), time.time() + SECONDS
    while time.time() < until:
        if asks:
            ask("/metrics")
            ask("/api/status")
        time.sleep(1)
    return steps()[first + 1:]


try:
    while len(steps()) < 3:
        assert run.poll() is None, open(f"{folder}/err").read()
        time.sleep(0.2)
    keys = json.load(open(f"{run_dir}/http.json"))
    ratios, began, before = [], time.time(), page_seconds()
    asked = 0
    for pair in range(PAIRS):
        both = {}
        for asks in (True, False) if pair % 2 else (False, True):
            both[asks] = block(asks)
        if all(both.values()):
            ratios.append(statistics.mean(both[True]) / statistics.mean(both[False]))
            print(f"pair {pair + 1}: {len(both[True])} and {len(both[False])} steps, ratio {ratios[-1]:.4f}", flush=True)
    share = (page_seconds() - before) / (PAIRS * SECONDS)
    # The median of n values of a normal distribution varies by 1.25 sigma / sqrt(n); sigma from the quartiles, which hosts
    # of virtual machines that take a core away for a second leave alone.
    quartiles = statistics.quantiles(ratios, n=4)
    error = 1.25 * (quartiles[2] - quartiles[0]) / 1.35 / math.sqrt(len(ratios))
    print(f"median ratio {statistics.median(ratios):.4f}, standard error {error:.4f}, from {min(ratios):.4f} to {max(ratios):.4f}"
          + ("; undecided" if 2 * error > 0.005 else ""))
    print(f"the thread of the page: {100 * share:.3f} % of a core while it is asked ({os.cpu_count()} cores)")
    first, before, began = len(steps()), page_seconds(), time.time()
    host, port = keys["address"].rsplit(":", 1)
    sent = 0
    for i in range(10000):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex((host, int(port)))
        with contextlib.suppress(OSError):
            s.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            sent += 1
        s.close() if i % 2 else None
        time.sleep(0.002)
    seconds = time.time() - began
    print(f"10,000 connections in {seconds:.0f} s: the page took {100 * (page_seconds() - before) / seconds:.2f} % of a core, "
          f"{len(steps()) - first} steps were made, the run {'goes on' if run.poll() is None else 'HAS ENDED'}")
    good = statistics.median(ratios) <= 1.005 and run.poll() is None
    print(f"load {os.getloadavg()[0]:.1f};", "good" if good else "BAD")
finally:
    run.send_signal(signal.SIGTERM)
    run.wait(120)
    os.chdir("/")
    shutil.rmtree(folder)
sys.exit(not good)
