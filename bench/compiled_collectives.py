#!/usr/bin/env python3
"""Counts the collectives of a compiled program, and those beside which it computes: compiled_collectives.py FILE

FILE is the optimised program that XLA writes for a GPU, "...step.sm_9.0a_gpu_after_optimizations.txt" in DIR:
  XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text=true" drover compile run.yaml --target cuda:h200 --devices 8
An asynchronous collective is a pair of operations, start and done, and what stands between them runs beside it. The
table has a row for each kind and size of more than a megabyte: how many there are, how many are synchronous, and how
many have matrix products, attention or the loop of the loss, or other kernels alone, beside them.
"""
import collections
import re
import sys

BYTES = {"bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u8": 1, "s8": 1}
COMPUTES = re.compile(r"__cublas|__cudnn| while\(")
KERNEL = re.compile(r" fusion\(|__cublas|__cudnn| while\(")


def largest_bytes(types):
    largest = 0
    for kind, dims in re.findall(r"(\w+)\[([\d,]+)\]", types):
        elements = 1
        for dim in dims.split(","):
            elements *= int(dim)
        largest = max(largest, elements * BYTES.get(kind, 1))
    return largest


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    entry = open(sys.argv[1]).read().split("\nENTRY")[1]
    rows, started = collections.defaultdict(collections.Counter), {}
    products = kernels = 0
    for line in entry.split("\n"):
        made = re.match(r"\s*(?:ROOT )?%(\S+) = (.*?) (all-gather|reduce-scatter|async-start|async-done)\((%[^,)]+)", line)
        kind = made and re.search(r"all-gather|reduce-scatter", made[1] if made[3].startswith("async") else made[3])
        if kind and made[3] == "async-start":
            started["%" + made[1]] = (kind[0], largest_bytes(made[2]), products, kernels)
        elif kind and made[3] == "async-done":
            name, size, products_before, kernels_before = started.pop(made[4])
            beside = "products" if products > products_before else "kernels" if kernels > kernels_before else "nothing"
            rows[name, size][beside] += 1
        elif kind:
            ranks = re.search(r"replica_groups=\{\{([\d,]+)", line)[1].count(",") + 1
            whole = largest_bytes(made[2]) * (ranks if kind[0] == "reduce-scatter" else 1)
            rows[kind[0], whole]["synchronous"] += 1
        products += bool(COMPUTES.search(line))
        kernels += bool(KERNEL.search(line))
    columns = ("products", "kernels", "nothing", "synchronous")
    print("| collective | MiB | number | beside products | beside other kernels | beside nothing | synchronous |")
    print("|---|---|---|---|---|---|---|")
    for (name, size), of in sorted(rows.items()):
        if size > 1e6:
            print(f"| {name} | {size / 2**20:.0f} | {sum(of.values())} | " + " | ".join(str(of[c]) for c in columns) + " |")


main()
