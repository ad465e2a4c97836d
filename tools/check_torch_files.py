#!/usr/bin/env python3
"""Compares what drover and torch's weights_only reader read from files of torch.save, bit for bit: random state dicts with every
type, 0 to 5 dimensions, strides, shared storages, nested dicts and lists, in both forms of the file and the protocols 2 to 5.

    pip install torch numpy; make program; cmake --build build --target torch_values
    tools/check_torch_files.py build/tests/torch_values [NUMBER [SEED]]
"""
import collections, pathlib, random, subprocess, sys, tempfile

import torch

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
         torch.bool]
LATE = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]  # not in the older form
WORDS = ["weight", "bias", "layers", "0", "model", "a.b", "émile", "x" * 60, "attn", "mlp", "lm_head"]


def storage(dice, n, dtype):
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (n * dtype.itemsize,), dtype=torch.uint8)
    return raw.view(dtype) if n else torch.empty(0, dtype=dtype)


def tensor(dice, dtype, kept):
    """A tensor of its own or a view of one that the dict has."""
    shape = [dice.choice([0, 1, 1, 2, 3, 4, 5, 7]) if dice.random() < 0.3 else dice.randint(1, 5) for _ in range(dice.randint(0, 5))]
    same = [k for k in kept if k.dtype == dtype]
    if same and dice.random() < 0.4:
        t = dice.choice(same)
    else:
        t = storage(dice, torch.Size(shape).numel(), dtype).reshape(shape)
        kept.append(t)
    for _ in range(dice.randint(0, 3)):
        kind = dice.randint(0, 4)
        if kind == 0 and t.dim() > 1:
            order = list(range(t.dim()))
            dice.shuffle(order)
            t = t.permute(order)
        elif kind == 1 and t.dim():
            d = dice.randrange(t.dim())
            if t.shape[d] > 1:
                begin = dice.randrange(t.shape[d])
                t = t.narrow(d, begin, dice.randint(1, t.shape[d] - begin))
        elif kind == 2 and t.dim() and t.shape[0] > 1:
            t = t[::2]
        elif kind == 3 and t.dim() < 5:
            t = t.unsqueeze(dice.randint(0, t.dim()))
        elif kind == 4 and 1 in t.shape:
            t = t.expand([3 if n == 1 else n for n in t.shape])
    if t.dtype.is_floating_point and dice.random() < 0.1:
        t = torch.nn.Parameter(t, requires_grad=dice.random() < 0.5 and t.dtype.itemsize > 1)
    return t


def state(dice, types, kept, depth=0):
    out = collections.OrderedDict() if dice.random() < 0.5 else {}
    for _ in range(dice.randint(0 if depth else 1, 6)):
        key = dice.randint(0, 300) if dice.random() < 0.2 else dice.choice(WORDS) + str(dice.randint(0, 99))
        kind = dice.random()
        if kind < 0.15 and depth < 4:
            out[key] = state(dice, types, kept, depth + 1)
        elif kind < 0.2:
            out[key] = [tensor(dice, dice.choice(types), kept) for _ in range(dice.randint(0, 3))]
        elif kind < 0.3:
            out[key] = dice.choice([None, True, 7, -1, 1 << 40, 0.25, "text", (1, 2.0), [3], torch.float16, torch.Size([2])])
        else:
            out[key] = tensor(dice, dice.choice(types), kept)
    return out


def lines(value, name=""):
    """The tensors of a value as torch_values prints them."""
    if isinstance(value, torch.Tensor):
        t = value.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
        raw = torch.empty(t.numel(), dtype=t.dtype).copy_(t).view(torch.uint8) if t.numel() else t
        yield "\t".join([name, str(t.dtype)[6:], ",".join(map(str, value.shape)), bytes(raw.tolist() if t.numel() else []).hex()])
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from lines(below, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for i, below in enumerate(value):
            yield from lines(below, f"{name}.{i}" if name else str(i))


def main():
    program, number, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000, int(sys.argv[3]) if len(sys.argv) > 3 else 1
    dice = random.Random(seed)
    torch.manual_seed(seed)
    n_tensors = bad = 0
    with tempfile.TemporaryDirectory() as work:
        files, expected = [], []
        while len(files) < number:
            path = str(pathlib.Path(work) / f"{len(files)}.pt")
            zipped = dice.random() < 0.6
            types = TYPES + LATE if zipped else TYPES
            value = state(dice, dice.sample(types, dice.randint(1, 4)), [])
            names = [line.split("\t")[0] for line in lines(value)]
            if len(set(names)) < len(names) or any("" == n for n in names):
                continue  # "a.b" of one dict and "b" of a dict "a" have one name
            protocol = dice.choice([2, 2, 3, 4, 5])
            torch.save(value, path, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
            # weights_only refuses protocols above 2 in some releases; the values are those that were saved.
            read = torch.load(path, weights_only=True) if protocol == 2 else value
            files.append(path)
            expected.append(list(lines(read)))
        printed = subprocess.run([program, *files], stdout=subprocess.PIPE, check=True).stdout.decode().split("file\t")[1:]
        for path, theirs, text in zip(files, expected, printed):
            ours = text.splitlines()[1:]
            n_tensors += len(theirs)
            if ours != theirs:
                bad += 1
                wrong = next((o for o, t in zip(ours + [""], theirs + [""]) if o != t), "")
                print(f"seed {seed}, {pathlib.Path(path).name}: {len(ours)} tensors, expected {len(theirs)}: {wrong[:200]}")
    print(f"{number} files, {n_tensors} tensors, {bad} files differ")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
