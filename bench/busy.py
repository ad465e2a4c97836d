#!/usr/bin/env python3
"""drover and PyTorch beside other programs: training steps of llama-15m beside none, one and two busy loops.

usage: bench/busy.py [--drover build/drover] [--python PYTHON_WITH_TORCH] [--rounds N] [--rows N] [--repeats N]
Prints a table in Markdown: the median and range of some rounds, in tokens/s, and as shares of the median alone. The cases of a
round follow each other. A run during which programs other than these took more than --foreign of a core is repeated,
twice at most, and then left out. --python none leaves PyTorch out, --drover none drover. --raw FILE appends each run to
FILE, and the table is of all runs in it: so rounds can be spread over quiet moments of the machine."""
import argparse, json, os, pathlib, statistics, subprocess, sys, time

here = pathlib.Path(__file__).resolve().parent
CASES = [("alone", 0, 0), ("one busy loop", 1, 0), ("one at nice 19", 1, 19), ("two busy loops", 2, 0)]
TICKS = os.sysconf("SC_CLK_TCK")


def machine_s():
    """Processor time of the whole machine, in core seconds: without idle, waiting for disks and stolen time."""
    fields = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4] - fields[7]) / TICKS


def loop_s(loop):
    fields = open(f"/proc/{loop.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def beside(n, nice, command):
    """Runs a command beside n endless loops; its output, and how much of a core programs of others took meanwhile."""
    loops = [subprocess.Popen(["nice", "-n", str(nice), sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        time.sleep(0.1)
        begin, all_before, ours_before = time.time(), machine_s(), os.times()
        loops_before = sum(map(loop_s, loops))
        done = subprocess.run(command, capture_output=True, text=True)
        ours = os.times()
        used = ours.children_user + ours.children_system - ours_before.children_user - ours_before.children_system
        foreign = machine_s() - all_before - used - sum(map(loop_s, loops)) + loops_before
        seconds = time.time() - begin
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return done.stdout, foreign / seconds


def drover(args, n, nice):
    settings = ["model.preset=llama-15m", "data.sequence_length=512", f"training.global_batch_size={args.rows}"]
    out, foreign = beside(n, nice, [args.drover, "bench", "step", "--repeats", str(args.repeats), "--json"] +
                          [word for setting in settings for word in ("--set", setting)])
    return json.loads(out)["mean_tokens_per_s"], foreign


def pytorch(args, n, nice):
    out, foreign = beside(n, nice, [args.python, str(here / "pytorch_step.py"), "none", "llama-15m", "512", "--only",
                                    f"{args.mode}:{args.rows}", "--batch", str(args.rows)])
    return json.loads(out.strip().splitlines()[-1])["tokens_per_s"], foreign


def undisturbed(args, title, name, run, n, nice):
    """The speed of a run that others left alone, as a list: empty if there was none."""
    for _ in range(3):
        speed, foreign = run(args, n, nice)
        print(f"{title}, {name}: {speed:.0f} tokens/s, others took {foreign:.2f} of a core", file=sys.stderr, flush=True)
        if args.raw:
            with open(args.raw, "a") as raw:
                print(json.dumps({"beside": title, "program": name, "tokens_per_s": speed, "foreign": foreign}), file=raw)
        if foreign <= args.foreign:
            return [speed]
    return []


def cell(values, unit, digits):
    """The median of some numbers and their range, in a unit."""
    median, least, most = (f"{x / unit:.{digits}f}" for x in (statistics.median(values), min(values), max(values)))
    return median if least == most else f"{median} ({least}-{most})"


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--drover", default="build/drover")
p.add_argument("--python", default="none")
p.add_argument("--mode", default="eager-bf16", help="of PyTorch")
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--rows", type=int, default=8, help="of 512 tokens, in a step")
p.add_argument("--repeats", type=int, default=4, help="steps of drover in a run")
p.add_argument("--foreign", type=float, default=0.1)
p.add_argument("--raw", help="JSON lines, one for each run")
args = p.parse_args()
programs = [(name, run) for name, run, path in (("drover", drover, args.drover), ("PyTorch", pytorch, args.python)) if path != "none"]
speeds = {}
for _ in range(args.rounds):
    for title, n, nice in CASES:
        for name, run in programs:
            speeds.setdefault((title, name), []).extend(undisturbed(args, title, name, run, n, nice))
if args.raw:
    records = [json.loads(line) for line in open(args.raw)]
    names = list(dict.fromkeys(record["program"] for record in records))
    programs = [(name, None) for name in names]
    speeds = {(title, name): [r["tokens_per_s"] for r in records if (r["beside"], r["program"]) == (title, name) and
                              r["foreign"] <= args.foreign] for title, _, _ in CASES for name in names}
print("| beside |" + "".join(f" {name}, tokens/s | of alone | runs |" for name, _ in programs))
print("|---|" + "---|---|---|" * len(programs))
for title, _, _ in CASES:
    row = f"| {title} |"
    for name, _ in programs:
        runs, alone = speeds[title, name], speeds["alone", name]
        row += (f" {cell(runs, 1, 0)} | {cell(runs, statistics.median(alone), 2)} | {len(runs)} |"
                if runs and alone else " disturbed | | 0 |")
    print(row)
