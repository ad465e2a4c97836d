#!/usr/bin/env python3
"""Whether the goodput ledger tells where the time of a run went: runs of several ranks that are killed, stopped, hung, filled up
and broken, by a driver that keeps a record of its own: when, by its own clock, each line of the run's files appeared, what it
did to the run and when. Prints both for each class that it can know: start, evaluation, save, lost, down, stopped, and the
steps that are left; exit status 1 if one of them differs by more than SLACK s and 2 %, or the wall time does. How long saves
take it estimates from the times of steps, so that saves and steps may differ by three standard errors of that more.
usage: goodput.py DROVER [FAULTS [RANKS [SLACK]]]   (20 faults of 4 ranks, 2 s: about five minutes on two free cores). A full
disk needs root (a small tmpfs)."""
import json, os, random, shutil, signal, statistics, subprocess, sys, tempfile, threading, time
import small_run

drover = os.path.realpath(sys.argv[1])
EVERY = 20  # steps between checkpoints
n_faults, ranks, slack = (int(sys.argv[i]) if len(sys.argv) > i else [20, 4, 2][i - 2] for i in (2, 3, 4))
CONFIG = """\
model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2}
data: {train: data/set, split: [90, 10, 0], sequence_length: 128}
training: {steps: 100000, global_batch_size: 8, micro_batch_size: 2, eval_every: 25, eval_batches: 20}
schedule: {type: constant, warmup_steps: 0}
checkpoint: {every: %d, keep: 2}
run_dir: disk/run
""" % EVERY


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
        time.sleep(7)  # the others name it after 5, and wait: it might go on
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
    sets = ["optimizer.lr=1000", "optimizer.weight_decay=1000", "training.max_bad_steps=2", "checkpoint.every=0"] if kind == "nan" else []
    saved = set(os.listdir("disk/run/checkpoints")) if kind == "nan" and record.attempts else set()
    job = small_run.train(drover, ranks, sets, open("err", "ab"))
    if not record.wait(lambda: record.count("running") > running, job):
        sys.exit("the run does not start:\n" + open("err").read()[-3000:])
    lines = len(record.metrics.seen) + random.randrange(15, 60)
    if kind != "nan":
        record.wait(lambda: len(record.metrics.seen) >= lines, job)
    dead = fault(record, job, kind or "stop")
    job.wait()
    if kind == "full":
        os.unlink("disk/filler")
    if kind == "nan":  # it saved its last finished step, whose weights are of no use any more
        for name in set(os.listdir("disk/run/checkpoints")) - saved:
            shutil.rmtree("disk/run/checkpoints/" + name)
    time.sleep(0.1)
    at = lambda event, n: [t for t, e in record.events.seen if e["event"] == event][n]
    ends = [t for t, e in record.events.seen if e["event"] in ("end", "failure")]
    if dead is None:
        if len(ends) <= record.before:
            sys.exit(f"{kind}: no end was written:\n" + open("err").read()[-3000:])
        dead = ends[-1]
    record.attempts.append((at("start", started), at("running", running), dead, kind in ("stop", None)))
    print(f"attempt {len(record.attempts)}: {kind or 'the last'}, {dead - record.attempts[-1][0]:.1f} s", flush=True)


def save_seconds(record, running, dead, kept):
    """What an attempt waited for checkpoints, seen from outside: how much longer the steps beside a save are than the others
    of the attempt, with the variance of that estimate, and, of one that was asked to stop, from then until the save is told of."""
    usual, beside, last = [], [], None
    for t, line in record.metrics.seen:
        if running <= t <= dead and "step_s" in line and line["step"] <= kept:
            if last:
                (beside if line["step"] % EVERY in (0, 1) else usual).append(t - last)
        last = t if running <= t <= dead else None
    seconds = variance = 0
    if usual and beside:
        seconds = max(sum(beside) - len(beside) * statistics.mean(usual), 0)
        variance = statistics.pvariance(usual) * len(beside) * (1 + len(beside) / len(usual))
    asked = [t for t, e in record.events.seen if e["event"] == "stop" and running <= t <= dead]
    saved = [t for t, e in record.events.seen if e["event"] == "save" and asked and asked[0] <= t <= dead]
    return seconds, variance, saved[-1] - asked[0] if saved else 0


def own_record(record):
    """The parts as this program saw them, how long it took, and the standard error of what saves took."""
    parts = dict.fromkeys(("start", "evaluation", "save", "lost", "down", "stopped", "steps"), 0.0)
    bounds, variances = record.attempts, 0.0
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
        beside, variance, at_end = save_seconds(record, running, dead, kept)
        variances += variance
        parts["save"] += beside + at_end
        parts["steps"] -= beside + at_end
    return parts, bounds[-1][2] - bounds[0][0], variances ** 0.5


def compare(parts, wall, save_error):
    said = json.loads(subprocess.run([drover, "report", "disk/run", "--json"], check=True, capture_output=True).stdout)
    ledger = said["runs"][0]["ledger"]
    seconds = ledger["seconds"]
    steps = sum(seconds[x] for x in ("compute", "communication", "bubble", "data", "other"))
    made = {**{x: seconds[x] for x in parts if x != "steps"}, "steps": steps, "wall": ledger["wall_s"]}
    truth = {**parts, "wall": wall}
    good = abs(sum(seconds.values()) - ledger["wall_s"]) < 1e-6
    print(f"{'part':12} {'record':>10} {'ledger':>10} {'off':>8}")
    for part, true in truth.items():
        off = made[part] - true
        fits = abs(off) <= max(slack, 0.02 * true) + (3 * save_error if part in ("save", "steps") else 0)
        good &= fits
        print(f"{part:12} {true:10.2f} {made[part]:10.2f} {off:8.2f} {'' if fits else 'BAD'}")
    print(f"{ledger['attempts']} attempts, {ledger['lost_steps']} steps lost, goodput {100 * ledger['goodput']:.1f} %, "
          f"standard error of save {save_error:.2f} s, load {os.getloadavg()[0]:.1f}")
    return good and ledger["attempts"] == len(record.attempts)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    random.seed(5)
    os.mkdir("disk")
    begin = time.monotonic()
    mounted = n_faults >= 5 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", "disk"],
                                               stderr=subprocess.DEVNULL).returncode == 0
    try:
        small_run.make(drover, CONFIG)
        kinds = ["stop", "kill all", "kill one", "hang", "nan"] + (["full"] if mounted else [])
        faults = [kinds[i % len(kinds)] for i in range(n_faults)]
        if n_faults >= 5:  # the first one leaves a checkpoint to go back to
            faults[1:] = random.sample(faults[1:], n_faults - 1)
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
print("good" if good else "BAD", f"({n_faults} faults of {ranks} ranks, {time.monotonic() - begin:.0f} s)")
sys.exit(not good)
