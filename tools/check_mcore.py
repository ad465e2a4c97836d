#!/usr/bin/env python3
"""Holds checkpoints of Megatron-Core's own package against drover, in both directions, on a processor: its dist_checkpointing loads
what `drover ckpt export --dcp --names megatron` writes, and `drover ckpt import` reads what it saves. Needs torch, safetensors and
megatron-core (0.16.1 was tried).

    python tools/check_mcore.py build/drover
"""
import os, pathlib, random, subprocess, sys, tempfile, warnings
import torch
import torch.distributed as dist
from safetensors.torch import load_file
import foreign_models as models

warnings.filterwarnings("ignore")
torch.cuda.synchronize = lambda *device: None  # the package asks for a GPU where it need not
torch.cuda.current_device = lambda: "cpu"


def sharded(tensors, fill):
    """Megatron-Core's description of each tensor; layers are places along the first dimension."""
    from megatron.core.dist_checkpointing import ShardedTensor
    out = {}
    for name, w in tensors.items():
        if not name.startswith("decoder.layers."):
            out[name] = ShardedTensor.from_rank_offsets(name, fill(w))
            continue
        for i, layer in enumerate(w):
            out[f"{name}/{i}"] = ShardedTensor.from_rank_offsets(name, fill(layer), (0, i, len(w)), prepend_axis_num=1)
    return out


def main():
    from megatron.core import dist_checkpointing
    drover, quiet = sys.argv[1], dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(random.randint(20000, 30000)), RANK="0", WORLD_SIZE="1")
    dist.init_process_group("gloo")
    config = models.draw_config(random.Random(1)) | dict(tie_word_embeddings=False, torch_dtype="bfloat16")
    with tempfile.TemporaryDirectory() as folder:
        tensors = models.write_model(f"{folder}/model", config, 1)
        expected = models.to_megatron_dist(tensors, config)
        subprocess.run([drover, "ckpt", "export", f"{folder}/model", "--dcp", f"{folder}/out", "--names", "megatron"], **quiet)
        found = dist_checkpointing.load(sharded(expected, torch.zeros_like), f"{folder}/out")
        for name, w in expected.items():
            loaded = torch.stack([found[f"{name}/{i}"] for i in range(len(w))]) if f"{name}/0" in found else found[name]
            if not torch.equal(loaded, w):
                sys.exit(f"{name} differs as Megatron-Core loads it")
        if found["args"].num_layers != config["num_hidden_layers"]:
            sys.exit("the arguments are not those of the model")
        pathlib.Path(f"{folder}/saved").mkdir()
        arguments = models.megatron_args(config, config["vocab_size"], 1, 1)
        dist_checkpointing.save(sharded(expected, torch.clone) | {"args": arguments, "iteration": 7}, f"{folder}/saved")
        subprocess.run([drover, "ckpt", "import", f"{folder}/saved", "--out", f"{folder}/back"], **quiet)
        back = load_file(f"{folder}/back/model.safetensors")
        bad = [name for name in tensors | back if name not in back or name not in tensors or not torch.equal(back[name], tensors[name])]
        if bad:
            sys.exit(f"{bad} differ as drover reads what Megatron-Core saved")
    print("Megatron-Core loads what drover writes, and drover reads what it saves: equal bits")


if __name__ == "__main__":
    main()
