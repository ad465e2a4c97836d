#!/usr/bin/env python3
"""Whether one slowed rank of four is named as a straggler, and nobody else: 20 tries with a random rank held to about
half of its processor by SIGSTOP pulses, one that is nice beside busy programs, quiet steps, and steps beside busy
programs that hit all ranks alike. usage: stragglers.py DROVER [TRIES [QUIET_STEPS]]; prints a line a try and a summary,
exit status 1 if a rank was missed or named falsely. Needs mpirun; the machine may be busy."""
import json, os, random, shutil, signal, subprocess, sys, tempfile, threading, time

drover = os.path.realpath(sys.argv[1])
tries = int(sys.argv[2]) if len(sys.argv) > 2 else 20
quiet = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
RANKS, WITHIN = 4, 30
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
        f.write("model: {preset: tiny, vocab_size: 400, num_hidden_layers: 4}\ntokenizer: tok\n"
                "data: {train: data/set, split: [100, 0, 0], sequence_length: 128}\n"
                "training: {steps: 100000, global_batch_size: 8, micro_batch_size: 2, eval_every: 0}\n"
                "checkpoint: {every: 0}\n")


def lines(name):
    try:
        with open(name) as f:
            return [json.loads(x) for x in f.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


class Run:
    def __init__(self, name):
        self.name = name
        shutil.rmtree(name, ignore_errors=True)
        self.process = subprocess.Popen(["mpirun", "--oversubscribe", "-n", str(RANKS), drover, "train", "run.yaml", "--set",
                                         f"run_dir={name}"], env=environment, stdout=subprocess.DEVNULL,
                                        stderr=open(name + ".err", "w"))

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
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]


def named(run, rank, since, what):
    """Waits until the rank is named, or WITHIN steps are over; says what was."""
    while not run.events() and run.step() < since + WITHIN:
        time.sleep(0.1)
    time.sleep(0.5)
    events = run.events()
    good = len(events) == 1 and events[0]["rank"] == rank and events[0]["reason"] == "compute"
    print(what, f"rank {rank} slowed at step {since}, seen by step {run.step()}:",
          [(x["rank"], x["host"], x["reason"], x["ratio"], x["since_step"]) for x in events], "good" if good else "BAD", flush=True)
    return good


def pulses(i):
    run = Run(f"pulses{i}")
    run.wait_step(25)
    rank = random.randrange(RANKS)
    pid, since = run.pids()[rank], run.step()
    times = [x["step_s"] for x in lines(f"{run.name}/metrics.jsonl") if "step_s" in x][-20:]
    pulse = Pulses(pid, sorted(times)[len(times) // 2])
    pulse.start()
    good = named(run, rank, since + 5, f"pulses {i}:")
    pulse.ends = True
    pulse.join()
    if good:
        run.wait_step(run.step() + 35)
        over = run.events("straggler_over")
        good = len(over) == 1 and over[0]["rank"] == rank
        print("    over:", [(x["rank"], x["step"]) for x in over], "good" if good else "BAD", flush=True)
    run.end()
    return good


def nice(i):
    run = Run(f"nice{i}")
    run.wait_step(25)
    rank = random.randrange(RANKS)
    pid, others = run.pids()[rank], busy(os.cpu_count())
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), 10)
    good = named(run, rank, run.step(), f"nice {i}:")
    run.end()
    for other in others:
        other.kill()
    return good


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
    make_data()
    random.seed(1)
    begin = os.getloadavg()[0]
    found = [sum(map(of, range(tries))) for of in (pulses, nice)]
    calm = [none_named("quiet", 0), none_named("busy", os.cpu_count()), none_named("busy1", 1)]
    print(f"named within {WITHIN} steps: {found[0]} of {tries} by pulses, {found[1]} of {tries} nice; "
          f"named in {quiet} quiet steps: {'none' if calm[0] else 'FALSELY'}, beside {os.cpu_count()} busy programs: "
          f"{'none' if calm[1] else 'FALSELY'}, beside one: {'none' if calm[2] else 'FALSELY'}; "
          f"load {begin:.1f} at first, {os.getloadavg()[0]:.1f} at last")
    os.chdir("/")
sys.exit(not (found == [tries, tries] and all(calm)))
