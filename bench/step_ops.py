#!/usr/bin/env python3
"""Training steps of two programs, taking turns: tokens/s as new/old, the share of the GEMM peak that each reached in the same
run, and how long each op took, old/new, with its part of the bound in NEW; medians over the pairs, ranges in brackets. usage:
step_ops.py OLD NEW [PAIRS (3)]; both have `bench step --profile`. Ten minutes a pair on two cores of Zen 3."""
import json, statistics, subprocess, sys

old, new = sys.argv[1:3]
pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
MODELS = {"llama-15m": ("512", "1"), "llama-135m": ("1024", "2")}  # tokens a row, rows of a micro-batch


def step(program, model):
    tokens, rows = MODELS[model]
    run = subprocess.run([program, "bench", "step", "--json", "--profile", "--repeats", "3", *(word for key in (
        f"model.preset={model}", f"data.sequence_length={tokens}", f"training.micro_batch_size={rows}") for word in ("--set", key))],
        check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def summary(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


runs = {(program, model): [] for program in (old, new) for model in MODELS}
for i in range(pairs):
    for program in (old, new) if i % 2 == 0 else (new, old):
        for model in MODELS:
            runs[program, model].append(step(program, model))
    print(f"pair {i + 1} of {pairs}", file=sys.stderr, flush=True)
for model in MODELS:
    before, after = runs[old, model], runs[new, model]
    print(f"{model}: tokens/s new/old", summary([b["tokens_per_s"] / a["tokens_per_s"] for a, b in zip(before, after)]),
          "at", summary([b["tokens_per_s"] for b in after]))
    for what, them in ("old", before), ("new", after):
        print(f"  {what}: of the peak {summary([r['ratio'] for r in them])}, peak",
              summary([max(r["gemm_peak_fp32"], r["gemm_peak_bf16"]) / 1e9 for r in them]), "GFLOP/s")
    rows = [{(row["program"], row["op"]): row for row in r["profile"]["rows"]} for r in before + after]
    for key in sorted(rows[-1], key=lambda k: -rows[-1][k]["share"]):
        if rows[-1][key]["share"] < 0.002: continue
        ratios = [a[key]["seconds"] / b[key]["seconds"] for a, b in zip(rows[:pairs], rows[pairs:])]
        print(f"  {key[0]:9} {key[1]:26} {100 * statistics.median(r[key]['share'] for r in rows[pairs:]):5.1f} %  old/new {summary(ratios)}"
              f"  of bound {statistics.median(r[key]['of_bound'] for r in rows[pairs:]):.2f}")
