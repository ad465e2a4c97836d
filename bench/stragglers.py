#!/usr/bin/env python3
"""Whether one slowed rank of four is named as a straggler, and nobody else: TRIES (20) with a random rank held to about half of
its processor by SIGSTOP pulses, a quarter as many with one that is nice beside busy programs, QUIET_STEPS (1000) quiet steps, and
as many beside busy programs that hit all ranks alike. usage: stragglers.py DROVER [TRIES [QUIET_STEPS]]; prints a line a try and
a summary, exit status 1 if a rank was missed or named falsely. Needs mpirun, and two cores of its own: about five minutes there
(20 tries and 2,000 steps of 30 to 60 ms); on a machine that others use steps take what they take."""
import os, random, shutil, signal, statistics, sys, tempfile, threading, time
import small_run
from small_run import lines

drover = os.path.realpath(sys.argv[1])
tries = int(sys.argv[2]) if len(sys.argv) > 2 else 20
quiet = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
RANKS, WITHIN = 4, 30
CONFIG = """\
model: {preset: tiny, vocab_size: 400, num_hidden_layers: 4}
data: {train: data/set, split: [100, 0, 0], sequence_length: 128}
training: {steps: 100000, global_batch_size: 8, micro_batch_size: 2, eval_every: 0}
checkpoint: {every: 0}
"""


class Run:
    def __init__(self, name):
        self.name = name
        shutil.rmtree(name, ignore_errors=True)
        self.process = small_run.train(drover, RANKS, [f"run_dir={name}"], open(name + ".err", "w"))

    def step(self):
        made = [x["step"] for x in lines(f"{self.name}/metrics.jsonl") if "step_s" in x]
        return made[-1] if made else 0

    def wait_step(self, step, seconds=3600):
        end = time.monotonic() + seconds
        while self.step() < step:
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{self.name} does not come to step {step}:\n" + open(self.name + ".err").read())
            time.sleep(0.1)

    def pids(self):
        """By rank: ranks/status names them."""
        with open(f"{self.name}/ranks/status") as f:
            return [int(line[28:35]) for line in f.read().split("\n")[2:2 + RANKS]]

    def events(self, kind="straggler"):
        return [x for x in lines(f"{self.name}/events.jsonl") if x["event"] == kind]

    def median_s(self):
        """Of the last 20 steps."""
        return statistics.median(x["step_s"] for x in lines(f"{self.name}/metrics.jsonl")[-20:] if "step_s" in x)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def cpu_s(pid):
    with open(f"/proc/{pid}/schedstat") as f:
        return int(f.read().split()[0]) * 1e-9


class Pulses(threading.Thread):
    """Half of a processor for the main thread of a process: it runs until it has had a quarter of the processor time that
    a step takes it, then it is stopped for a quarter of the time that a step took. Pulses by the clock alone say less:
    the scheduler of a busy machine gives a process that was stopped what it has missed."""

    def __init__(self, pid, step_s):
        super().__init__(daemon=True)
        self.pid, self.step_s, self.ends = pid, step_s, False

    def run(self):
        before = cpu_s(self.pid)
        time.sleep(5 * self.step_s)
        quarter = (cpu_s(self.pid) - before) / 5 / 4
        while not self.ends:
            before = cpu_s(self.pid)
            while cpu_s(self.pid) < before + quarter and not self.ends:
                time.sleep(0.001)
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(self.step_s / 4)
            os.kill(self.pid, signal.SIGCONT)


def busy(n):
    return [small_run.start([sys.executable, "-c", "while True: pass"]) for _ in range(n)]


def named(run, rank, since, before, what):
    """Waits until the rank is named, or WITHIN steps are over; says what was, beside the `before` events of earlier tries."""
    while len(run.events()) == before and run.step() < since + WITHIN:
        time.sleep(0.02)
    time.sleep(0.5)
    events = run.events()[before:]
    good = len(events) == 1 and events[0]["rank"] == rank and events[0]["reason"] == "compute"
    print(what, f"rank {rank} slowed at step {since}, seen by step {run.step()}:",
          [(x["rank"], x["host"], x["reason"], x["ratio"], x["since_step"]) for x in events], "good" if good else "BAD", flush=True)
    return good


def over(run, rank, before):
    """Waits until it is told that the rank is slow no more; it was named once."""
    last = run.step() + 2 * WITHIN
    while len(run.events("straggler_over")) == before and run.step() < last:
        time.sleep(0.02)
    events = run.events("straggler_over")[before:]
    good = [x["rank"] for x in events] == [rank]
    print("    over:", [(x["rank"], x["step"]) for x in events], "good" if good else "BAD", flush=True)
    run.wait_step(run.step() + 20)  # the steps that are looked at next are quiet again
    return good


def pulses():
    run, found = Run("pulses"), 0
    run.wait_step(25)
    for i in range(tries):
        rank, before, ended = random.randrange(RANKS), len(run.events()), len(run.events("straggler_over"))
        pulse, since = Pulses(run.pids()[rank], run.median_s()), run.step()
        pulse.start()
        good = named(run, rank, since + 5, before, f"pulses {i}:")  # for five steps it looks how long one takes
        pulse.ends = True
        pulse.join()
        found += over(run, rank, ended) and good if len(run.events()) > before else 0
    run.end()
    return found


def nice():
    found, others = 0, busy(os.cpu_count())
    for i in range(tries // 4):  # a run each: not everybody may take niceness back
        run = Run(f"nice{i}")
        run.wait_step(25)
        rank = random.randrange(RANKS)
        for thread in os.listdir(f"/proc/{run.pids()[rank]}/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), 10)
        found += named(run, rank, run.step(), 0, f"nice {i}:")
        run.end()
    for other in others:
        other.kill()
    return found


def none_named(name, beside):
    run, others = Run(name), busy(beside)
    run.wait_step(quiet)
    events = run.events()
    steps = [x for x in lines(f"{name}/metrics.jsonl") if "step_s" in x]
    print(f"{name}: {run.step()} steps of {sum(x['step_s'] for x in steps) / len(steps):.3f} s, named:",
          [(x["rank"], x["reason"], x["ratio"], x["since_step"]) for x in events], "BAD" if events else "good", flush=True)
    run.end()
    for other in others:
        other.kill()
    return not events


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    small_run.make(drover, CONFIG)
    random.seed(1)
    load, begin = os.getloadavg()[0], time.monotonic()
    found = [pulses(), nice()]
    calm = [none_named("quiet", 0), none_named("busy", os.cpu_count())]
    print(f"named within {WITHIN} steps: {found[0]} of {tries} by pulses, {found[1]} of {tries // 4} nice; "
          f"named in {quiet} quiet steps: {'none' if calm[0] else 'FALSELY'}, beside {os.cpu_count()} busy programs: "
          f"{'none' if calm[1] else 'FALSELY'}; {time.monotonic() - begin:.0f} s, load {load:.1f} at first, "
          f"{os.getloadavg()[0]:.1f} at last")
    os.chdir("/")
sys.exit(not (found == [tries, tries // 4] and all(calm)))
