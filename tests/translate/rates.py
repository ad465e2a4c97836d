#!/usr/bin/env python3
"""The learning rates of a run against a trainer's own formula. Usage: rates.py METRICS FORMULA LR WARMUP STEPS [MIN_LR]"""
import json
import math
import sys


def linear(s, lr, w, n, _):
    """transformers: get_linear_schedule_with_warmup"""
    return lr * s / w if s < w else lr * max(0, n - s) / (n - w)


def cosine(s, lr, w, n, _):
    """transformers: get_cosine_schedule_with_warmup, half a cycle"""
    return lr * s / w if s < w else lr * max(0, 0.5 * (1 + math.cos(math.pi * (s - w) / (n - w))))


def constant(s, lr, w, n, _):
    """transformers: get_constant_schedule_with_warmup"""
    return lr * min(1, s / w)


def nemo_cosine(s, lr, w, n, least):
    """NeMo: CosineAnnealing without constant steps"""
    if s <= w:
        return lr * (s + 1) / (w + 1)
    return least if s > n else least + (lr - least) * 0.5 * (1 + math.cos(math.pi * (s - w) / (n - w)))


def nemo_cosine_30(s, lr, w, n, least):
    """the same with constant_steps: 30, which is Megatron's form"""
    if s <= w:
        return lr * s / w
    d = n - 30 - w
    return least if s > w + d else least + (lr - least) * 0.5 * (1 + math.cos(math.pi * (s - w) / d))


def main():
    path, name, lr, warmup, steps, least = (sys.argv[1:] + ["0"])[:6]
    lines = [json.loads(line) for line in open(path)]
    got = [line["lr"] for line in lines if "lr" in line]
    want = [globals()[name](s, float(lr), int(warmup), int(steps), float(least)) for s in range(int(steps))]
    assert len(got) == len(want), f"{len(got)} steps, expected {len(want)}"
    for s, (a, b) in enumerate(zip(got, want)):
        assert abs(a - b) <= 1e-6 * b + 1e-12, f"step {s}: {a}, expected {b}"


main()
