#!/usr/bin/env python3
"""Sends a stop in each phase of a run, on each layout, to one rank or to all of them. The run has to react in time and end with 3,
and after resuming it must have the bits of an uninterrupted run. tests/at_event.c holds a thread at a moment of the phase
that is drawn: one that reads rows or writes a checkpoint stays there until the run has reacted to the stop without it, as on a disk
that does not answer; the run's own thread continues when the signal has arrived.

    tools/stop_phases.py DROVER [COUNT] [SEED]      COUNT cases that are drawn (20; about five seconds each)
    tools/stop_phases.py DROVER PHASE:LAYOUT...     these
"""
import glob, hashlib, os, random, shutil, signal, subprocess, sys, tempfile, time

LIMIT_S = float(os.environ.get("STOP_LIMIT_S", 2))  # more where other programs keep the cores busy
PATIENCE_S = 60                                     # for what has no limit
LAYOUTS = {
    "alone": (1, []), "data": (2, []), "zero": (2, ["parallel.zero=2"]), "tensor": (2, ["parallel.tensor=2"]),
    "context": (2, ["parallel.context=2"]), "pipeline": (2, ["parallel.pipeline=2"]),
    "gpipe": (2, ["parallel.pipeline=2", "parallel.schedule=gpipe"]),
    "zero_bubble": (2, ["parallel.pipeline=2", "parallel.schedule=zb-h1"]),
    "interleaved": (2, ["parallel.pipeline=2", "parallel.virtual_stages=2", "model.num_hidden_layers=4"]),
    "mixed": (4, ["parallel.tensor=2", "parallel.pipeline=2"]),
}
# A step of a second, so that the ranks ask each other within it.
LONG = ["training.global_batch_size=512", "training.micro_batch_size=1", "training.steps=3"]
CHECKPOINT = "*/checkpoints/*.safetensors"
# Settings; from which step it starts; the event that is held, and how late the latest of them; whether the run waits for it.
PHASES = {
    "check": ([], 3, "before", f"read {CHECKPOINT}", 4, True),
    "load": ([], 3, "before", f"read {CHECKPOINT}", 40, True),
    "draw": ([], 0, "after", "make */checkpoints", 1, True),
    "data": ([], 0, "before", "read *set.bin", 40, False),
    "step": (LONG, 0, "after", "write */metrics.jsonl", 2, True),
    "evaluation": (["training.eval_every=1", "training.eval_batches=1000000"], 0, "before", "read *set.bin", 200, True),
    "save": (["checkpoint.every=1"], 0, "half", f"write {CHECKPOINT}", 8, False),
}
YAML = """model: {preset: tiny, vocab_size: 400, num_hidden_layers: 2}
tokenizer: tok
data: {train: data/set, valid: [%s], sequence_length: 64}
training: {steps: 6, global_batch_size: 16, micro_batch_size: 1, eval_every: 0, precision: fp32}
checkpoint: {every: 0, keep: 0}
"""


def command(drover, run_dir, layout, more):
    ranks, sets = LAYOUTS[layout]
    options = [x for key in [f"run_dir={run_dir}", *sets, *more] for x in ("--set", key)]
    return [*(["mpirun", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []), drover, "train", "run.yaml", *options]


def run(drover, run_dir, layout, more):
    done = subprocess.run(command(drover, run_dir, layout, more), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"exit {done.returncode}: {layout} {' '.join(more)}: {done.stderr}")


def bits(run_dir):
    newest = sorted(glob.glob(f"{run_dir}/checkpoints/step-*"))[-1]
    return [newest[-6:]] + [hashlib.sha256(open(f"{newest}/{name}.safetensors", "rb").read()).hexdigest() for name in ("model", "optimizer")]


def wait(condition, limit_s):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def ranks_of(process, ranks):
    if ranks == 1:
        return [process.pid]
    children = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
    return [int(pid) for pid in children if open(f"/proc/{pid}/comm").read().startswith("drover")]


def stop(drover, phase, layout, run_dir, rng):
    """None, or what is wrong."""
    sets, first, when, pattern, latest, waits = PHASES[phase]
    ranks = LAYOUTS[layout][0]
    hold, number = os.path.abspath(run_dir) + "-hold", rng.choice([signal.SIGTERM, signal.SIGUSR1])
    rank = 0 if "metrics" in pattern or "make" in pattern else rng.randrange(ranks)
    event = f"hold {when} {rng.randint(1, latest)} {pattern}"
    env = dict(os.environ, LD_PRELOAD=os.path.abspath("at_event.so"), AT_EVENT=event, HELD=hold)
    if ranks > 1:
        env["AT_RANK"] = str(rank)
    log = lambda: open(f"{run_dir}/log.txt", errors="replace").read() if os.path.exists(f"{run_dir}/log.txt") else ""
    before = len(log())
    with open(run_dir + ".out", "w") as out:
        process = subprocess.Popen(command(drover, run_dir, layout, sets), env=env, stdout=out, stderr=out)
    ended = lambda: process.poll() is not None
    heeded = lambda: ended() or "saving after step" in log()[before:] or "stopped by SIG" in open(run_dir + ".out").read()
    try:
        if not wait(lambda: ended() or os.path.exists(hold + ".held"), PATIENCE_S) or ended():
            return f"{event} does not come"
        begun = "of memory planned" in log()[before:]
        pids = ranks_of(process, ranks)
        for pid in pids if rng.random() < .5 else [rng.choice(pids)]:
            os.kill(pid, number)
        if not waits and begun and not wait(heeded, LIMIT_S):
            return f"{event}: not heeded in {LIMIT_S} s while a thread is held"
        open(hold + ".released", "w").close()
        if not wait(heeded, LIMIT_S):
            return f"{event}: not heeded in {LIMIT_S} s"
        if not wait(ended, PATIENCE_S):
            return f"{event}: does not end"
        text = open(run_dir + ".out").read()
        if process.returncode != 3 or "stopped by SIG" not in text:
            return f"{event}: exit {process.returncode}: {text}"
        if first and "resumed from" in log()[before:] and phase == "check":
            return f"{event}: loads what it was to check: {text}"
    finally:
        open(hold + ".released", "w").close()
        if not ended():
            process.kill()
    return None


def try_case(drover, phase, layout, rng, straight={}):
    sets, first = PHASES[phase][:2]
    plain = [x for x in sets if "eval" not in x and "every" not in x]
    if (layout, *plain) not in straight:
        straight[layout, *plain] = tempfile.mkdtemp(prefix=f"straight-{layout}-", dir=".")
        run(drover, straight[layout, *plain], layout, plain + (["checkpoint.every=3"] if not plain else []))
    run_dir = tempfile.mkdtemp(prefix=f"{phase}-{layout}-", dir=".")
    if first:
        shutil.copytree(straight[layout, *plain], run_dir, dirs_exist_ok=True)
        for late in glob.glob(f"{run_dir}/checkpoints/step-000006"):
            shutil.rmtree(late)
        os.remove(f"{run_dir}/saved.json")
    wrong = stop(drover, phase, layout, run_dir, rng)
    if wrong:
        return wrong
    run(drover, run_dir, layout, plain)
    return None if bits(run_dir) == bits(straight[layout, *plain]) else "resumed, it gives other bits than a run that nothing stopped"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    drover, words = os.path.realpath(sys.argv[1]), sys.argv[2:]
    source = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "tests", "at_event.c")
    rng = random.Random(int(words[1]) if len(words) > 1 and words[1].isdigit() else 1)
    if words and ":" in words[0]:
        cases = [tuple(word.split(":")) for word in words]
    else:
        every = [(phase, layout) for phase in PHASES for layout in LAYOUTS]
        cases = [rng.choice(every) for _ in range(int(words[0]) if words else 20)]
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", DROVER_THREADS="1",
                      DROVER_CKPT_BLOCK_BYTES="8192", DROVER_PEAK_FLOPS="1e11")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "at_event.so", source, "-ldl"], check=True)
        with open("text.txt", "w") as text:
            text.writelines(f"Document {i} tells of the fox, the dog and {i * i % 97} lazy hens.\n\n" for i in range(3000))
        for words in (["tokenizer", "train", "--input", "text.txt", "--vocab-size", "400", "--out", "tok"],
                      ["data", "build", "--input", "text.txt", "--separator", "\n\n", "--tokenizer", "tok", "--out", "data/set", "--append-eod"]):
            subprocess.run([drover, *words], check=True, capture_output=True)
        with open("run.yaml", "w") as config:
            config.write(YAML % ", ".join(["data/set"] * 400))
        for phase, layout in cases:
            begin, why = time.monotonic(), try_case(drover, phase, layout, rng)
            wrong += why is not None
            print(f"{phase}:{layout} {time.monotonic() - begin:.1f} s: {why or 'ok'}", flush=True)
    print(f"{len(cases) - wrong} passed, {wrong} failed")
    sys.exit(wrong > 0)


main()
