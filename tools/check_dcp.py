#!/usr/bin/env python3
"""Draws random small models, exports them by `drover ckpt export --dcp`, and reads the result with PyTorch: under each set of names
every tensor has the same bits. Needs torch and safetensors.

    python tools/check_dcp.py build/drover [N] [SEED]
"""
import pathlib, random, subprocess, sys, tempfile, warnings
import torch
import torch.distributed.checkpoint as dcp
import foreign_models as models

warnings.filterwarnings("ignore")
NAMES = {"hf": lambda tensors, c: tensors, "torchtitan": models.to_torchtitan, "megatron": models.to_megatron_dist,
         "torchtitan-main": lambda tensors, c: models.to_torchtitan(tensors, c, main=True)}


def load(folder):
    found = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    tensors = {name: torch.empty(t.size, dtype=t.properties.dtype) for name, t in found.items()}
    dcp.load(tensors, checkpoint_id=folder, no_dist=True)
    return tensors


def main():
    drover, n, seed = sys.argv[1], int((sys.argv + ["", ""])[2] or 5), int((sys.argv + ["", "", ""])[3] or 1)
    draw = random.Random(seed)
    for i in range(n):
        with tempfile.TemporaryDirectory() as folder:
            config = models.draw_config(draw)
            tensors = models.write_model(f"{folder}/model", config, seed + i)
            for name, convert in NAMES.items():
                prefix = draw.choice(["", "model."])
                subprocess.run([drover, "ckpt", "export", f"{folder}/model", "--dcp", f"{folder}/{name}", "--names", name] +
                               (["--prefix", prefix] if prefix else []), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                expected = {prefix + key: w for key, w in convert(tensors, config).items()}
                found = load(f"{folder}/{name}")
                different = [key for key in expected | found if key not in found or key not in expected or found[key].dtype != expected[key].dtype
                             or not torch.equal(found[key], expected[key])]
                if different:
                    sys.exit(f"model {i} of seed {seed}, names {name}: {different} differ; config {config}")
    print(f"{n} models, {len(NAMES)} sets of names each: every tensor has the bits that it should")


if __name__ == "__main__":
    main()
