#!/usr/bin/env python3
"""Exchanges checkpoints with the package of Megatron-Core in both directions, on a CPU: its dist_checkpointing loads what `drover
ckpt export --dcp --names megatron` writes, and `drover ckpt import` reads what it saves, with the state of an optimizer. Versions
before 0.14 also save flattened shards of their fully_sharded_model_space. Needs torch, safetensors and megatron-core (0.16.1 and
0.13.1 were tried).

    python tools/check_mcore.py build/drover
"""
import json, os, pathlib, random, subprocess, sys, tempfile, warnings
import numpy, torch
import torch.distributed as dist
from safetensors.torch import load_file
import foreign_models as models
from check_resume import cut

warnings.filterwarnings("ignore")
torch.cuda.synchronize = lambda *device: None  # the package asks for a GPU where it need not
torch.cuda.current_device = lambda: "cpu"
numpy.product = numpy.prod  # which numpy 2 has no more


def sharded(tensors, fill, replica=0):
    """Megatron-Core's description of each tensor; layers are places along the first dimension."""
    from megatron.core.dist_checkpointing import ShardedTensor
    out = {}
    for name, w in tensors.items():
        if not name.startswith("decoder.layers."):
            out[name] = ShardedTensor.from_rank_offsets(name, fill(w), replica_id=replica)
            continue
        for i, layer in enumerate(w):
            out[f"{name}/{i}"] = ShardedTensor.from_rank_offsets(name, fill(layer), (0, i, len(w)), prepend_axis_num=1, replica_id=replica)
    return out


def flattened(key, name, w, rank):
    """What data rank `rank` of two has of the shards of two tensor ranks: they are cut within a row."""
    from megatron.core.dist_checkpointing import ShardedTensor
    stacked = name.startswith("decoder.layers.")
    for layer, one in enumerate(w) if stacked else [(0, w)]:
        for place, part in cut(one, name).items():
            axes = [(0, layer, len(w))] if stacked else []
            axes += [(len(axes) + axis, at, one.shape[axis] // part.shape[axis]) for axis, at in enumerate(place)]
            first = part.numel() // 3
            piece = slice(first, part.numel()) if rank else slice(0, first)
            yield f"{key}/{layer}/{place}", ShardedTensor.from_rank_offsets_flat(
                key, part.flatten()[piece].clone(), part.shape, *axes, flattened_range=piece, prepend_axis_num=int(stacked))


def save_flattened(rank, port, folder, tensors, moments, c, about):
    from megatron.core import dist_checkpointing
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo")
    state = sharded(models.to_megatron_dist(tensors, c), torch.clone, rank) | about
    state["optimizer"] = {"optimizer": {"param_groups": [{"lr": 0.5, "step": 7}]}}
    for key, of in (moments | {"fp32_param": {name: w.float() for name, w in tensors.items()}}).items():
        for name, w in models.to_megatron_dist(of, c).items():
            state |= flattened(f"optimizer.state.{key}.{name}", name, w, rank)
    dist_checkpointing.save(state, folder)
    dist.destroy_process_group()


def optimizer_of(tensors, moments, c):
    """The optimizer's part of a checkpoint, as FP32Optimizer.sharded_state_dict makes it of torch's AdamW."""
    from megatron.core.dist_checkpointing.optimizer import get_param_id_to_sharded_param_map, optim_state_to_sharding_state
    model = sharded(models.to_megatron_dist(tensors, c), lambda w: torch.nn.Parameter(w.float()))
    theirs = {key: models.to_megatron_dist(of, c) for key, of in moments.items()}
    adamw = torch.optim.AdamW([t.data for t in model.values()], lr=0.5)
    for place, t in model.items():
        name, _, layer = place.partition("/")
        adamw.state[t.data] = {"step": torch.tensor(7.0)} | {key: (of[name][int(layer)] if layer else of[name]).clone() for key, of in theirs.items()}
    state = adamw.state_dict()
    optim_state_to_sharding_state(state, get_param_id_to_sharded_param_map(model, (t.data for t in model.values())), exclude_keys="step")
    state["state"]["common_step"] = torch.tensor(7.0)
    return state


def check_optimizer(drover, tensors, c, folder, quiet):
    """Saves an unfinished run in each way that the package has, and compares drover's import with it."""
    from megatron.core import dist_checkpointing
    from megatron.core.dist_checkpointing import ShardedTensor
    draw = torch.Generator().manual_seed(2)
    moments = {key: {name: torch.rand(w.shape, generator=draw) for name, w in tensors.items()} for key in ("exp_avg", "exp_avg_sq")}
    about = {"args": models.megatron_args(c, c["vocab_size"], 1, 1, consumed_train_samples=70), "iteration": 7}
    model = sharded(models.to_megatron_dist(tensors, c), torch.clone)
    for way in ["plain"] + ["flattened"] * hasattr(ShardedTensor, "from_rank_offsets_flat"):
        pathlib.Path(f"{folder}/{way}").mkdir()
        if way == "plain":
            dist_checkpointing.save(model | {"optimizer": optimizer_of(tensors, moments, c)} | about, f"{folder}/{way}")
        else:
            torch.multiprocessing.spawn(save_flattened, (random.randint(20000, 30000), f"{folder}/{way}", tensors, moments, c, about), nprocs=2)
        subprocess.run([drover, "ckpt", "import", f"{folder}/{way}", "--out", f"{folder}/{way}-back", "--optimizer"], **quiet)
        back, stood = load_file(f"{folder}/{way}-back/optimizer.safetensors"), json.loads(pathlib.Path(f"{folder}/{way}-back/trainer.json").read_text())
        expected = {f"{key}.{name}": w for key, of in moments.items() for name, w in of.items()}
        if way == "flattened":
            expected |= {f"master.{name}": w.float() for name, w in tensors.items()}
        bad = [name for name in expected | back if name not in back or name not in expected or not torch.equal(back[name], expected[name])]
        if bad or (stood["step"], stood["updates"], stood["rows_taken"], stood["learning_rate"]) != (7, 7, 70, 0.5):
            sys.exit(f"{way}: {bad} differ, or the place: {stood}")
        print(f"optimizer, {way}: {len(back)} tensors have equal bits")


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
        check_optimizer(drover, tensors, config, folder, quiet)
    print("Megatron-Core loads what drover writes, and drover reads what it saves: equal bits")


if __name__ == "__main__":
    main()
