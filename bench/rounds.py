#!/usr/bin/env python3
"""Rounds of the tables of docs/speed.md: drover and its peer one after the other, as often as it is called.

    python bench/rounds.py build/drover PYTHON_WITH_TORCH RAW CASE...
    python bench/rounds.py - - RAW

RAW is a file of JSON lines, to which a call adds a line per measurement; then the table of all that it holds is printed, in
Markdown: of each cell the median, and the range in brackets. So rounds can be spread over quiet moments of the machine. The
second form prints the table alone. A ratio is that of one round. The modes of the peer are its best of an earlier run
of all (results/2026-11-22-step.md, -lora.md), at no more than 90 seconds a case.
"""
import json, os, pathlib, statistics, subprocess, sys

here = pathlib.Path(__file__).resolve().parent
Q_AND_V = ["lora.rank=16", "lora.target_modules=[q_proj,v_proj]"]
CASES = {  # the peer's script, its mode:micro-batch, model, tokens a row, rows a step, further keys
    "llama-135m": ("pytorch_step.py", "eager-bf16:4", "llama-135m", 1024, 4, []),
    "llama-15m": ("pytorch_step.py", "eager-bf16:8", "llama-15m", 512, 8, []),
    "lora": ("lora_step.py", "eager-bf16:1", "llama-135m", 1024, 2, Q_AND_V),
    "lora-15m": (None, None, "llama-15m", 512, 8, [*Q_AND_V, "training.micro_batch_size=4"]),
    "lora-15m-1-block": (None, None, "llama-15m", 512, 8, [*Q_AND_V, "training.micro_batch_size=4", "parallel.tensor_blocks=1"]),
}


def measure(drover, python, case):
    script, mode, model, row, rows, keys = CASES[case]
    sets = [f"model.preset={model}", f"data.sequence_length={row}", f"training.global_batch_size={rows}", *keys]
    command = [drover, "bench", "step", "--json"] + [word for s in sets for word in ("--set", s)]
    record = dict(case=case, drover=json.loads(subprocess.check_output(command)))
    if script:
        command = [python, str(here / script), "none", model, str(row), "--batch", str(rows), "--only", mode]
        record["peer"] = json.loads(subprocess.check_output(command).splitlines()[-1])
    return record


def cell(values, digits):
    """The median of some numbers and their range."""
    median, least, most = (f"{x:,.{digits}f}" for x in (statistics.median(values), min(values), max(values)))
    return median if least == most else f"{median} ({least}-{most})"


def table(records):
    print("| case | rounds | drover, tokens/s | of the GEMM peak, % | peer, tokens/s | drover / peer | memory, GB | peer's |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        mine = [r for r in records if r["case"] == case]
        if not mine:
            continue
        ours = [r["drover"] for r in mine]
        cells = [cell([d["tokens_per_s"] for d in ours], 0), cell([100 * d["ratio"] for d in ours], 0)]
        memory = cell([d["peak_rss"] / 1e9 for d in ours], 2)
        if "peer" in mine[0]:
            cells += [cell([r["peer"]["tokens_per_s"] for r in mine], 0),
                      cell([r["drover"]["tokens_per_s"] / r["peer"]["tokens_per_s"] for r in mine], 2), memory,
                      cell([r["peer"]["peak_rss"] / 1e9 for r in mine], 2)]
        else:
            cells += ["", "", memory, ""]
        print(f"| {case} | {len(mine)} | " + " | ".join(cells) + " |")


if len(sys.argv) < 4 or set(sys.argv[4:]) - set(CASES):
    sys.exit(f"{__doc__}\ncases: {', '.join(CASES)}")
drover, python, raw, *cases = sys.argv[1:]
for case in cases:
    with open(raw, "a") as file:
        record = measure(drover, python, case)
        print(json.dumps(dict(record, load=os.getloadavg()[0])), file=file)
table([json.loads(line) for line in open(raw)])
