#!/usr/bin/env python3
"""drover and PyTorch beside other programs: a training step of llama-15m beside none, one and two busy loops.

usage: bench/busy.py [--drover build/drover] [--python PYTHON_WITH_TORCH] [--repeats N]
Prints a table in Markdown: mean tokens/s, and its share of the speed alone. --python none leaves PyTorch out."""
import argparse, json, pathlib, subprocess, sys

here = pathlib.Path(__file__).resolve().parent
CASES = [("alone", 0, 0), ("one busy loop", 1, 0), ("one at nice 19", 1, 19), ("two busy loops", 2, 0)]


def beside(n, nice, command):
    """Runs a command beside n endless loops; its output."""
    loops = [subprocess.Popen(["nice", "-n", str(nice), sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return done.stdout


def drover(args, n, nice):
    out = beside(n, nice, [args.drover, "bench", "step", "--set", "model.preset=llama-15m", "--set",
                           "data.sequence_length=512", "--repeats", str(args.repeats), "--json"])
    return json.loads(out)["mean_tokens_per_s"]


def pytorch(args, n, nice):
    out = beside(n, nice, [args.python, str(here / "pytorch_step.py"), "none", "llama-15m", "512", "--only", args.mode])
    return json.loads(out.strip().splitlines()[-1])["tokens_per_s"]


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--drover", default="build/drover")
p.add_argument("--python", default="none")
p.add_argument("--mode", default="eager-bf16:8", help="of PyTorch, MODE:MICRO_BATCH")
p.add_argument("--repeats", type=int, default=4)
args = p.parse_args()
programs = [("drover", drover)] + ([] if args.python == "none" else [("PyTorch", pytorch)])
print("| beside |" + "".join(f" {name}, tokens/s | of alone |" for name, _ in programs))
print("|---|" + "---|---|" * len(programs))
alone = {}
for title, n, nice in CASES:
    row = f"| {title} |"
    for name, run in programs:
        speed = run(args, n, nice)
        alone.setdefault(name, speed)
        row += f" {speed:.0f} | {speed / alone[name]:.2f} |"
    print(row, flush=True)
