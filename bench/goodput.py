#!/usr/bin/env python3
"""Whether the goodput ledger tells where the time of a run went: runs of several ranks that are killed, stopped, hung, filled up
and broken, by a driver that keeps a record of its own: when, by its own clock, each line of the run's files appeared, what it
did to the run and when. Prints both for each part of the wall time; exit status 1 if they differ by more than SLACK s and 2 %.
usage: goodput.py DROVER [FAULTS [RANKS [SLACK]]]   (20 faults of 4 ranks, 2 s). A full disk needs root (a small tmpfs)."""
import json, os, random, signal, subprocess, sys, tempfile, threading, time

drover = os.path.realpath(sys.argv[1])
n_faults, ranks, slack = (int(sys.argv[i]) if len(sys.argv) > i else [20, 4, 2][i - 2] for i in (2, 3, 4))
environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "DROVER_THREADS": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}


def make_data():
    with open("text.txt", "w") as f:
        for i in range(3000):
            f.write(f"Document {i} tells of the fox, the dog and {i * i % 97} lazy hens.\n\n")
    for args in (["tokenizer", "train", "--input", "text.txt", "--vocab-size", "400", "--out", "tok"],
                 ["data", "build", "--input", "text.txt", "--separator", "\n\n", "--tokenizer", "tok", "--out", "data/set",
                  "--append-eod"]):
        subprocess.run([drover, *args], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    with open("run.yaml", "w") as f:
        f.write("model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2}\ntokenizer: tok\n"
                "data: {train: data/set, split: [90, 10, 0], sequence_length: 128}\n"
                "training: {steps: 100000, global_batch_size: 8, micro_batch_size: 2, eval_every: 25, eval_batches: 20}\n"
                "schedule: {type: constant, warmup_steps: 0}\ncheckpoint: {every: 20, keep: 2}\nrun_dir: disk/run\n")


class Watcher(threading.Thread):
    """Notes when, by this program's clock, each whole line of a file was first seen. A resumed run cuts metrics.jsonl: the
    file is replaced, and what it has then was seen before."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.seen, self.offset, self.inode, self.ends = path, [], 0, None, False

    def look(self):
        try:
            with open(self.path, "rb") as f:
                inode = os.fstat(f.fileno()).st_ino
                if inode != self.inode:
                    self.offset = os.fstat(f.fileno()).st_size if self.inode else 0
                    self.inode = inode
                f.seek(self.offset)
                new = f.read()
        except FileNotFoundError:
            return
        now = time.monotonic()
        end = new.rfind(b"\n") + 1
        for line in new[:end].split(b"\n")[:-1]:
            self.seen.append((now, json.loads(line)))
        self.offset += end

    def run(self):
        while not self.ends:
            self.look()
            time.sleep(0.005)


def rank_pids(job):
    with open(f"/proc/{job.pid}/task/{job.pid}/children") as f:
        pids = [int(x) for x in f.read().split()]
    return [p for p in pids if open(f"/proc/{p}/comm").read().strip() == "drover"]


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Record:
    def __init__(self):
        self.attempts = []  # [started, first step began, died or ended, well]
        self.metrics = Watcher("disk/run/metrics.jsonl")
        self.events = Watcher("disk/run/events.jsonl")
        self.metrics.start(), self.events.start()

    def count(self, kind):
        return sum(e["event"] == kind for _, e in self.events.seen)

    def wait(self, of, job, seconds=600):
        end = time.monotonic() + seconds
        while not of() and job.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        return of()


def fault(record, job, kind):
    """Does it; says when the run was dead by it, None: when its processes say so themselves."""
    pids = rank_pids(job)
    if kind == "kill one":
        kill(random.choice(pids), signal.SIGKILL)
    elif kind == "kill all":
        now = time.monotonic()
        for pid in pids:
            kill(pid, signal.SIGKILL)
        return now
    elif kind == "hang":
        hung = random.choice(pids)
        kill(hung, signal.SIGSTOP)
        record.wait(lambda: record.count("end") + record.count("failure") > record.before, job, 60)
        time.sleep(1)
        kill(hung, signal.SIGKILL)
    elif kind == "full":
        with open("disk/filler", "wb") as f:
            try:
                while True:
                    f.write(bytes(1 << 16))
                    f.flush()
            except OSError:
                pass
    elif kind == "stop":
        kill(random.choice(pids), signal.SIGTERM)  # mpirun would end the ranks a second later, saved or not
    return None


def attempt(record, kind):
    """One attempt with a fault in it; kind None: a few steps, and an end as asked."""
    started, running = record.count("start"), record.count("running")
    record.before = record.count("end") + record.count("failure")
    sets = ["optimizer.lr=1e30", "training.max_bad_steps=2", "checkpoint.every=0"] if kind == "nan" else []
    job = subprocess.Popen(["mpirun", "--oversubscribe", "-n", str(ranks), drover, "train", "run.yaml",
                            *(x for s in sets for x in ("--set", s))], env=environment, stdout=subprocess.DEVNULL,
                           stderr=open("err", "ab"))
    if not record.wait(lambda: record.count("running") > running, job):
        sys.exit("the run does not start:\n" + open("err").read()[-3000:])
    lines = len(record.metrics.seen) + random.randrange(15, 60)
    if kind != "nan":
        record.wait(lambda: len(record.metrics.seen) >= lines, job)
    dead = fault(record, job, kind or "stop")
    job.wait()
    if kind == "full":
        os.unlink("disk/filler")
    time.sleep(0.1)
    at = lambda event, n: [t for t, e in record.events.seen if e["event"] == event][n]
    ends = [t for t, e in record.events.seen if e["event"] in ("end", "failure")]
    if dead is None:
        if len(ends) <= record.before:
            sys.exit(f"{kind}: no end was written:\n" + open("err").read()[-3000:])
        dead = ends[-1]
    record.attempts.append((at("start", started), at("running", running), dead, kind in ("stop", None)))
    print(f"attempt {len(record.attempts)}: {kind or 'the last'}, {dead - record.attempts[-1][0]:.1f} s", flush=True)


def own_record(record):
    """The parts as this program saw them."""
    parts = dict.fromkeys(("start", "down", "stopped", "lost", "evaluation", "steps"), 0.0)
    bounds = record.attempts
    for k, (start, running, dead, well) in enumerate(bounds):
        # An evaluation before the first step is no part of the start: how long it took is the run's word.
        early = sum(e["seconds"] for t, e in record.events.seen if e["event"] == "evaluation" and start <= t <= running)
        parts["start"] += running - start - early
        parts["evaluation"] += early
        if k:
            parts["stopped" if bounds[k - 1][3] else "down"] += start - bounds[k - 1][2]
        # What the next attempt resumed from says which steps counted.
        resumed = [e["step"] for t, e in record.events.seen if e["event"] == "resume" and k + 1 < len(bounds) and
                   abs(t - bounds[k + 1][0]) < bounds[k + 1][1] - bounds[k + 1][0] + 0.5]
        kept = resumed[0] if resumed else 1 << 60
        last = running
        for t, line in record.metrics.seen:
            if not running <= t <= dead + 1e-9:
                continue
            if line["step"] > kept and "step_s" in line:
                parts["lost"] += t - last
            else:
                parts["evaluation" if "val_loss" in line else "steps"] += t - last
            last = t
        parts["steps" if well else "lost"] += dead - last
    return parts, bounds[-1][2] - bounds[0][0]


def compare(parts, wall):
    said = json.loads(subprocess.run([drover, "report", "disk/run", "--json"], check=True, capture_output=True).stdout)
    ledger = said["runs"][0]["ledger"]
    seconds = ledger["seconds"]
    steps = sum(seconds[x] for x in ("compute", "communication", "bubble", "data", "save", "other"))
    made = {**{x: seconds[x] for x in parts if x != "steps"}, "steps": steps, "wall": ledger["wall_s"]}
    truth = {**parts, "wall": wall}
    good = abs(sum(seconds.values()) - ledger["wall_s"]) < 1e-6
    print(f"{'part':12} {'record':>10} {'ledger':>10} {'off':>8}")
    for part, true in truth.items():
        off = made[part] - true
        fits = abs(off) <= max(slack, 0.02 * true)
        good &= fits
        print(f"{part:12} {true:10.2f} {made[part]:10.2f} {off:8.2f} {'' if fits else 'BAD'}")
    print(f"{ledger['attempts']} attempts, {ledger['lost_steps']} steps lost, goodput {100 * ledger['goodput']:.1f} %, "
          f"load {os.getloadavg()[0]:.1f}")
    return good and ledger["attempts"] == len(record.attempts)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    random.seed(5)
    os.mkdir("disk")
    mounted = n_faults >= 5 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", "disk"],
                                               stderr=subprocess.DEVNULL).returncode == 0
    try:
        make_data()
        kinds = ["kill all", "stop", "kill one", "hang", "nan"] + (["full"] if mounted else [])
        faults = [kinds[i % len(kinds)] for i in range(n_faults)]
        if n_faults >= 5:
            random.shuffle(faults)
        record = Record()
        for kind in faults + [None]:
            attempt(record, kind)
        good = compare(*own_record(record))
        record.metrics.ends = record.events.ends = True
        record.metrics.join(), record.events.join()
    finally:
        if mounted:
            subprocess.run(["umount", "-l", "disk"])
    os.chdir("/")
print("good" if good else "BAD")
sys.exit(not good)
