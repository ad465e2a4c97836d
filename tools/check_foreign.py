#!/usr/bin/env python3
"""Draws random small models with optimizer state, writes them as other trainers do (tools/foreign_models.py,
tools/foreign_optimizers.py), and checks that `drover ckpt import --optimizer` gives the same weights, moments and master weights,
bit for bit. Needs torch and safetensors.

    python tools/check_foreign.py build/drover [N] [SEED]
"""
import json, pathlib, random, subprocess, sys, tempfile
import torch
from safetensors.torch import load_file
import foreign_models as models
import foreign_optimizers as optimizers


def draw_megatron(draw, c, layout, tensors, kinds):
    half = c["torch_dtype"] != "float32"
    layout["virtual"] = draw.choice([v for v in (1, 2) if layout["pipeline"] > 1 and v * layout["pipeline"] <= c["num_hidden_layers"]] or [1])
    layout["spec"] = draw.choice(["te", "local", "classic"])
    how = dict(form=draw.choice(["torch", "apex", "distributed", "distributed"] if half else ["fp32", "distributed"]),
               decay_first=draw.random() < 0.5, padded=draw.random() < 0.7, rule=draw.choice([optimizers.by_dimensions, optimizers.by_modules, optimizers.all_in_one]))
    return how, half, lambda folder: models.write_megatron(folder, tensors, c, **layout, optimizer=optimizers.megatron_optimizer(tensors, kinds, **how))


def draw_nnm(draw, c, layout, tensors, kinds):
    layout["split"] = draw.random() < 0.5
    how = dict(rule=draw.choice([optimizers.by_dimensions, optimizers.by_modules, optimizers.all_in_one]), ranks=draw.choice([0, 0, 1, 3]), masters=draw.random() < 0.5)
    masters = how["masters"] and c["torch_dtype"] != "float32"
    return how, masters, lambda folder: models.write_nnm(folder, tensors, c, **layout, optimizer=optimizers.nnm_optimizer(tensors, kinds, **how))


def draw_nxd(draw, c, layout, tensors, kinds):
    heads, kv, tied = c["num_attention_heads"], c["num_key_value_heads"], c["tie_word_embeddings"]
    copies = draw.choice([m for m in (1, 2, 4) if heads % (kv * m) == 0])
    if copies > 1:
        layout["tensor"] = kv * copies
    layout |= dict(copies=copies, fused=copies == 1 and draw.random() < 0.5, xser=draw.random() < 0.5, below=draw.choice(["model", "shards/model"]))
    zero = draw.random() < 0.7
    how = dict(rule=draw.choice([optimizers.by_dimensions, optimizers.all_in_one]), ranks=draw.choice([1, 2, 3, 5]), zero=zero,
               masters=zero and draw.random() < 0.6, wide=draw.random() < 0.3, counts=draw.random() < 0.5)
    masters = how["masters"] and (c["torch_dtype"] != "float32" or how["wide"])
    # A tied model may have its one table twice.
    twice = tied and draw.random() < 0.5
    full = lambda all_of: all_of | ({"lm_head.weight": all_of["model.embed_tokens.weight"]} if twice else {})
    tensors, kinds = full(tensors), {kind: full(all_of) for kind, all_of in kinds.items()}
    return how, masters, lambda folder: models.write_nxd(folder, tensors, c, **layout, optimizer=optimizers.nxd_optimizer(tensors, kinds, tied, **how))


def differences(found, expected):
    return [k for k in expected | found if k not in found or k not in expected or found[k].dtype != expected[k].dtype or not torch.equal(found[k], expected[k])]


def check(drover, draw, seed, folder):
    """Returns what was drawn, and what is wrong with it."""
    c = models.draw_config(draw) | dict(vocab_size=16, intermediate_size=16)
    layout = dict(tensor=draw.choice([t for t in (1, 2, 4) if c["num_key_value_heads"] % t == 0]),
                  pipeline=draw.choice([p for p in (1, 2, 3) if p <= c["num_hidden_layers"]]))
    tensors = models.write_model(f"{folder}/model", c, seed)
    kinds, writer = optimizers.draw_state(tensors, seed), draw.choice([draw_megatron, draw_megatron, draw_nxd, draw_nxd, draw_nnm])
    how, masters, write = writer(draw, c, layout, tensors, kinds)
    write(f"{folder}/theirs")
    drawn = f"{writer.__name__[5:]} {layout}, optimizer {how}, config {c}"
    by_args = writer is draw_megatron and layout["tensor"] < 4 and draw.random() < 0.5  # else the vocabulary is padded, and nothing tells its size
    options = [] if by_args else ["--config", f"{folder}/model/config.json"]
    done = subprocess.run([drover, "ckpt", "import", f"{folder}/theirs", "--out", f"{folder}/back", "--optimizer", *options], capture_output=True, text=True)
    if done.returncode:
        return drawn, done.stderr
    bad = differences(load_file(f"{folder}/back/model.safetensors"), tensors)
    bad += differences(load_file(f"{folder}/back/optimizer.safetensors"), optimizers.expected(kinds, masters))
    trainer = json.loads(pathlib.Path(folder, "back/trainer.json").read_text())
    if (trainer["step"], trainer["updates"], trainer["learning_rate"]) != (optimizers.STEP, optimizers.STEP, optimizers.RATE):
        bad.append(trainer)
    return drawn, f"{bad} differ" if bad else None


def main():
    drover, n, seed = sys.argv[1], int((sys.argv + ["", ""])[2] or 20), int((sys.argv + ["", "", ""])[3] or 1)
    draw = random.Random(seed)
    for i in range(n):
        with tempfile.TemporaryDirectory() as folder:
            drawn, wrong = check(drover, draw, seed + i, folder)
        if wrong:
            sys.exit(f"model {i} of seed {seed}, {drawn}: {wrong}")
    print(f"{n} models in mid-run: every tensor came back with its bits")


if __name__ == "__main__":
    main()
