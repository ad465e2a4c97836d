#!/usr/bin/env python3
"""Lists the kernels of a compiled program between its matrix products: compiled_kernels.py FILE

FILE is the optimised program that XLA writes for a GPU, "...whole_step.sm_9.0a_gpu_after_optimizations.txt" in DIR:
  XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text=true" drover compile run.yaml --target cuda:h200
The first table has a row for each pair of calls (products of cuBLASLt, attention of cuDNN, the loop of the loss) with
the kernels between them and the MiB that each reads and writes; equal rows are one row with their number. The second
table has the kernels that write state in place (the update) with what they read and write, by the shape of the weight.
A fusion that slices an operand reads the slice; one that writes into an operand writes the part.
"""
import collections
import re
import sys

BYTES = {"bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8, "pred": 1, "u8": 1, "s8": 1}
LINE = re.compile(r"\s*(?:ROOT )?%([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*)$")
NO_KERNEL = {"parameter", "constant", "bitcast", "get-tuple-element", "tuple", "iota", "after-all", "partition-id", "replica-id"}


def size(types):
    total = 0
    for kind, dims in re.findall(r"(\w+)\[([\d,]*)\]", types):
        elements = 1
        for dim in filter(None, dims.split(",")):
            elements *= int(dim)
        total += elements * BYTES.get(kind, 1)
    return total


class Op:
    def __init__(self, made):
        self.name, self.type, self.code, rest = made.groups()
        depth, end = 1, 0
        while end < len(rest) and depth:
            depth += (rest[end] == "(") - (rest[end] == ")")
            end += 1
        self.operands = re.findall(r"%([\w.-]+)", rest[: end - 1])
        self.number = rest[: end - 1]
        called = re.search(r"(?:calls|body)=%([\w.-]+)", rest)
        self.calls = called and called[1]
        target = re.search(r'custom_call_target="([^"]*)"', rest)
        self.target = target[1] if target else ""


def read(path):
    computations, entry, ops, head = {}, None, None, ""
    for line in open(path):
        if line.startswith("HloModule"):
            head = line
        begin = re.match(r"(ENTRY )?%([\w.-]+) .*\{$", line)
        if begin:
            ops = computations[begin[2]] = {}
            entry = begin[2] if begin[1] else entry
        made = LINE.match(line) if ops is not None else None
        if made:
            op = Op(made)
            op.root = line.lstrip().startswith("ROOT")
            ops[op.name] = op
    return computations, entry, head


def root_of(ops):
    return next(op for op in ops.values() if op.root)


def read_of(ops, parameter):
    """The bytes that a fused computation reads of one of its parameters."""
    users = [op for op in ops.values() if parameter.name in op.operands]
    views = {parameter.name}
    total = 0
    while users:
        op = users.pop()
        if op.code == "bitcast":
            views.add(op.name)
            users += [o for o in ops.values() if op.name in o.operands]
        elif op.code in ("slice", "dynamic-slice"):
            total += size(op.type)
        elif op.code == "dynamic-update-slice" and op.operands[0] in views:
            continue
        else:
            return size(parameter.type)
    return min(total, size(parameter.type))


def written_of(ops, op):
    if op.code == "tuple":
        return sum(written_of(ops, ops[name]) for name in op.operands)
    if op.code == "dynamic-update-slice":
        return size(ops[op.operands[1]].type)
    if op.code == "bitcast" and op.operands[0] in ops:
        return written_of(ops, ops[op.operands[0]])
    return size(op.type)


def traffic(computations, ops, op):
    if op.code != "fusion":
        return sum(size(ops[name].type) for name in op.operands if name in ops), size(op.type)
    fused = computations[op.calls]
    reads = sum(read_of(fused, p) for p in fused.values() if p.code == "parameter")
    return reads, written_of(fused, root_of(fused))


def does(computations, op):
    """The operations that tell one fusion from another."""
    if op.code != "fusion":
        return op.code
    codes = {o.code for o in computations[op.calls].values()}
    telling = [c for c in ("reduce", "transpose", "copy", "concatenate", "dynamic-update-slice", "sort", "scatter", "gather", "logistic",
                           "rsqrt", "sqrt", "pad", "slice") if c in codes]
    return "fusion (" + ", ".join(telling or ["elements"]) + ")"


def call_of(ops, op):
    """The name of a call of a library, or of a loop; None: it is a kernel of XLA's own."""
    if op.code == "while":
        return "loop"
    if "fmha" in op.target:
        return "attention backward" if "Backward" in op.target else "attention"
    if "matmul" not in op.target and "gemm" not in op.target:
        return None
    shapes = [re.search(r"\[([\d,]*)\]", ops[name].type)[1].replace(",", "x") for name in op.operands[:2] if name in ops]
    out = re.search(r"(\w+)\[([\d,]*)\]", op.type)
    return f"{' by '.join(shapes)} to {out[1]} {out[2].replace(',', 'x')}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    computations, entry, head = read(sys.argv[1])
    ops = computations[entry]
    aliased = {int(i) for i in re.findall(r"\{(\d+)\}: \(\d+, \{\}", head)}
    results = [name for i, name in enumerate(root_of(ops).operands) if i in aliased]
    writers = set()
    for name in results:
        while ops[name].code in ("get-tuple-element", "bitcast"):
            name = ops[name].operands[0]
        writers.add(name)
    gaps, order, last, between = collections.Counter(), {}, "start", []
    update = collections.Counter()
    for op in ops.values():
        call = call_of(ops, op)
        if call:
            key = (last, call, tuple(between))
            gaps[key] += 1
            order.setdefault(key, len(order))
            last, between = call, []
        elif op.code not in NO_KERNEL:
            row = (does(computations, op), *traffic(computations, ops, op))
            if op.name in writers:
                update[(re.search(r"\[([\d,]*)\]", op.type)[1],) + row] += 1
            elif row[1] + row[2] > 1e6:
                between.append(row)
    gaps[(last, "end", tuple(between))] += 1
    order.setdefault((last, "end", tuple(between)), len(order))
    mib = 1 << 20
    print("| after | before | number | kernels: MiB read, written |\n|---|---|---|---|")
    for (a, b, kernels), n in sorted(gaps.items(), key=lambda g: order[g[0]]):
        said = "; ".join(f"{k} {r / mib:.0f}, {w / mib:.0f}" for k, r, w in kernels)
        if said:
            print(f"| {a} | {b} | {n} | {said} |")
    print("\n| update of | kernel | number | MiB read | MiB written |\n|---|---|---|---|---|")
    for (shape, kind, r, w), n in sorted(update.items(), key=lambda u: -u[0][2] - u[0][3]):
        print(f"| {shape.replace(',', 'x')} | {kind} | {n} | {r / mib:.1f} | {w / mib:.1f} |")
    products = sum(gaps.values()) - 1
    kernels = sum(n * len(k) for (_, _, k), n in gaps.items())
    moved = sum(n * (r + w) for (_, _, ks), n in gaps.items() for _, r, w in ks)
    print(f"\n{products} calls and loops; {kernels} kernels of more than a megabyte between them, {moved / 2**30:.2f} GiB")


main()
