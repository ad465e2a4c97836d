#!/usr/bin/env python3
"""Attention and training steps of two programs, taking turns: each case of `drover bench attention` and tokens/s of steps as
new/old, medians over the pairs, with the share of the GEMM peak that NEW reached in the same run. usage: attention.py OLD NEW
[PAIRS (3)] [TOKENS (8192)]; both have `bench attention`. About three minutes a pair on two cores of Zen 3."""
import json, statistics, subprocess, sys

old, new = sys.argv[1:3]
pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
tokens = sys.argv[4] if len(sys.argv) > 4 else "8192"
STEPS = {"llama-15m": ("512", "8"), "llama-135m": ("1024", "2")}


def drover(program, *words):
    run = subprocess.run([program, "bench", *words, "--json"], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def attention(program, precision):
    out = drover(program, "attention", "--tokens", tokens, "--set", f"training.precision={precision}")
    cases = {}
    for case in out["cases"]:
        name = f"{precision} head {case['head_dim']} {case['tokens']:5}{' documents' if case['documents'] else ''}"
        for what in "forward", "gradient":
            cases[f"{name} {what}"] = (case[f"{what}_seconds"], case[f"{what}_flops"] / case[f"{what}_seconds"] / out["peak_flops_per_s"])
        flops, seconds = (sum(case[f"{what}_{kind}"] for what in ("forward", "gradient")) for kind in ("flops", "seconds"))
        cases[f"{name} both"] = (seconds, flops / seconds / out["peak_flops_per_s"])
    return cases


def step(program, model, precision):
    row, batch = STEPS[model]
    out = drover(program, "step", "--repeats", "3", *(word for key in (
        f"model.preset={model}", f"data.sequence_length={row}", f"training.global_batch_size={batch}",
        f"training.precision={precision}") for word in ("--set", key)))
    return {f"{precision} step of {model}": (1 / out["tokens_per_s"], out["ratio"])}


def measure(program):
    found = {}
    for precision in "bf16", "fp32":
        found |= attention(program, precision)
        for model in STEPS:
            found |= step(program, model, precision)
    return found


ratios, shares = {}, {}
for i in range(pairs):
    order = (old, new) if i % 2 == 0 else (new, old)
    both = {program: measure(program) for program in order}
    for name, (seconds, share) in both[new].items():
        ratios.setdefault(name, []).append(both[old][name][0] / seconds)
        shares.setdefault(name, []).append(share)
    print(f"pair {i + 1} of {pairs}", file=sys.stderr, flush=True)
for name in ratios:
    print(f"{name:45} new/old {statistics.median(ratios[name]):.3f} ({min(ratios[name]):.3f} to {max(ratios[name]):.3f}), "
          f"of the peak {statistics.median(shares[name]):.3f}")
