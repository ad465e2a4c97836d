#!/usr/bin/env python3
"""Draws small models, writes them as other trainers do (tools/foreign_models.py), and holds `drover ckpt import` against them: the
same tensors, bit for bit. Needs torch and safetensors.

    python tools/check_foreign.py build/drover [N] [SEED]
"""
import json, pathlib, random, subprocess, sys, tempfile
import torch
from safetensors.torch import load_file
import foreign_models as models


def draw_writer(draw, c):
    kv, heads, n = c["num_key_value_heads"], c["num_attention_heads"], c["num_hidden_layers"]
    tensor = draw.choice([t for t in (1, 2, 4) if kv % t == 0])
    pipeline = draw.choice([p for p in (1, 2, 3) if p <= n])
    kind = draw.choice(["megatron", "megatron", "nxd", "nxd", "optimum", "nnm"])
    if kind == "megatron":
        virtual = draw.choice([v for v in (1, 2) if pipeline > 1 and v * pipeline <= n] or [1])
        how = dict(tensor=tensor, pipeline=pipeline, virtual=virtual, spec=draw.choice(["te", "local", "classic"]))
        return kind, how, lambda folder, tensors: models.write_megatron(folder, tensors, c, **how)
    if kind == "nnm":
        how = dict(tensor=tensor, pipeline=pipeline, split=draw.random() < 0.5)
        return kind, how, lambda folder, tensors: models.write_nnm(folder, tensors, c, **how)
    copies = draw.choice([m for m in (1, 2, 4) if heads % (kv * m) == 0])
    how = dict(tensor=kv * copies if copies > 1 else tensor, pipeline=pipeline, copies=copies, fused=copies == 1 and draw.random() < 0.5,
               xser=draw.random() < 0.5, below="shards/model" if kind == "optimum" else "model")
    return kind, how, lambda folder, tensors: models.write_nxd(folder, tensors, c, **how)


def main():
    drover, n, seed = sys.argv[1], int((sys.argv + ["", ""])[2] or 20), int((sys.argv + ["", "", ""])[3] or 1)
    draw = random.Random(seed)
    for i in range(n):
        with tempfile.TemporaryDirectory() as folder:
            c = models.draw_config(draw) | dict(vocab_size=16, intermediate_size=16)
            kind, how, write = draw_writer(draw, c)
            tensors = models.write_model(f"{folder}/model", c, seed + i)
            write(f"{folder}/theirs", tensors)
            by_args = kind == "megatron" and how["tensor"] < 4 and draw.random() < 0.5  # else the vocabulary is padded, and nothing tells its size
            options = [] if by_args else ["--config", f"{folder}/model/config.json"]
            done = subprocess.run([drover, "ckpt", "import", f"{folder}/theirs", "--out", f"{folder}/back", *options], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"model {i} of seed {seed}, {kind} {how}, config {c}: {done.stderr}")
            found = load_file(f"{folder}/back/model.safetensors")
            bad = [k for k in tensors | found if k not in found or k not in tensors or not torch.equal(found[k], tensors[k]) or found[k].dtype != tensors[k].dtype]
            if bad:
                sys.exit(f"model {i} of seed {seed}, {kind} {how}: {bad} differ; config {c}")
    print(f"{n} models: every tensor came back with its bits")


if __name__ == "__main__":
    main()
