#!/usr/bin/env python3
"""Compares `model.weights: resume` with torch: a small Llama takes some steps of AdamW under FSDP2 (gloo, 2 processes), and
torch.distributed.checkpoint saves it with its optimizer; torch takes three more steps, and so does drover from the checkpoint. Losses
agree to 1e-5 and weights to 2e-6 of the largest (fp32 sums in another order). Needs torch 2.11, transformers, safetensors.

    python tools/check_resume.py build/drover [CASE ...]

    hf          transformers' names, the optimizer's flattened, as torchtitan saves
    plain       the same with {"model": ..., "optim": ...} and groups of parameters, as get_state_dict gives them
    titan       torchtitan's names and order of rows
    mcore       Megatron-Core's fully_reshardable: stacked layers, numbers in common.pt
    nemo        the same as NeMo 2 saves it: weights/ in a folder of nemo_experiments, names after "module."
    flattened   its fully_sharded_model_space of 2 tensor ranks, flattened shards cut among 2 data ranks
"""
import functools, itertools, json, os, pathlib, random, shutil, struct, subprocess, sys, tempfile, warnings
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file
import foreign_models as models

warnings.filterwarnings("ignore")
CONFIG = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=16, intermediate_size=24, num_hidden_layers=2,
              num_attention_heads=4, num_key_value_heads=2, head_dim=4, vocab_size=24, rms_norm_eps=1e-5, rope_theta=10000.0,
              max_position_embeddings=64, tie_word_embeddings=False, hidden_act="silu", torch_dtype="float32")
ROWS, TOKENS, WORLD = 4, 8, 2
LR, WARMUP, BETAS, EPS, DECAY, CLIP = 1e-2, 8, (0.9, 0.95), 1e-6, 0.1, 1.0
STEPS, MORE = 5, 3
MEGATRON = "mcore", "nemo", "flattened"


def tokens_of(seed):
    return torch.randint(CONFIG["vocab_size"], (ROWS * TOKENS + 1,), generator=torch.Generator().manual_seed(seed))


def write_dataset(prefix, tokens):
    """Megatron's .bin and .idx: one document of int32."""
    pathlib.Path(f"{prefix}.bin").write_bytes(tokens.to(torch.int32).numpy().tobytes())
    pathlib.Path(f"{prefix}.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 1, 2) + struct.pack("<iqqq", len(tokens), 0, 0, 1))


def join_group(rank, port, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", rank=rank, world_size=world)


def fully_sharded(model, mesh):
    from torch.distributed.fsdp import fully_shard
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def adamw_of(model):
    groups = [dict(params=[p for p in model.parameters() if p.dim() == n], weight_decay=DECAY if n == 2 else 0.0) for n in (2, 1)]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / WARMUP))


def take_step(model, optimizer, schedule, x, y):
    rank, world = dist.get_rank(), dist.get_world_size()
    optimizer.zero_grad()
    logits = model(input_ids=x[rank::world]).logits.float()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y[rank::world].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    schedule.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    return loss.item() / world


def whole(x):
    return x.full_tensor().clone() if hasattr(x, "full_tensor") else x.clone()


def state_of(model, optimizer):
    """All of weights, exp_avg and exp_avg_sq, by the names of transformers."""
    named = dict(model.named_parameters())
    moments = {key: {name: whole(optimizer.state[p][key]) for name, p in named.items()} for key in ("exp_avg", "exp_avg_sq")}
    return {name: whole(p).detach() for name, p in named.items()}, moments


def as_other_modules(weights, moments, optimizer_of, mesh):
    """Modules of those names with those values, sharded, and an optimizer with those moments after STEPS steps."""
    from golden_foreign import as_modules
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import distribute_tensor
    root, _ = as_modules({name: w.contiguous() for name, w in weights.items()})
    fully_shard(root, mesh=mesh)
    optimizer, schedule = optimizer_of(root)
    for name, p in root.named_parameters():
        shard = functools.partial(distribute_tensor, device_mesh=p.device_mesh, placements=p.placements)
        optimizer.state[p] = {"step": torch.tensor(float(STEPS))} | {key: shard(moments[key][name].contiguous()) for key in moments}
    return root, optimizer


def save_dcp(case, model, optimizer, schedule, folder, mesh, lean):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict, get_state_dict
    if case == "plain":
        state, optim = get_state_dict(model, optimizer)
        return dcp.save({"model": state, "optim": optim, "step": STEPS}, checkpoint_id=folder)
    if case == "titan":
        weights, moments = state_of(model, optimizer)
        to = functools.partial(models.to_torchtitan, c=CONFIG)
        rates = [group["lr"] for group in optimizer.param_groups]
        model, optimizer = as_other_modules(to(weights), {key: to(of) for key, of in moments.items()}, adamw_of, mesh)
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate
    flat = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    if lean:  # golden files: of the groups the rates alone
        flat = {key: value for key, value in flat.items() if not key.startswith("param_groups.") or key.endswith(".lr")}
    train = {"step": torch.tensor(STEPS, dtype=torch.int32), "ntokens_seen": torch.tensor(STEPS * ROWS * TOKENS // WORLD)}
    dcp.save(get_model_state_dict(model) | {"optimizer": flat, "lr_scheduler": schedule.state_dict(), "train_state": train,
             "dataloader": {"dp_rank_0": b"x"}}, checkpoint_id=folder)


# --- Megatron-Core: from the descriptions in megatron/core/dist_checkpointing and megatron/core/optimizer/distrib_optimizer.py
def cut(w, name):
    """The shards of two tensor ranks, as offsets in the grid of shards and tensors: mlp.linear_fc1 has gate and up apart."""
    if "norm" in name:
        return {(0,): w}
    if "linear_proj" in name or "linear_fc2" in name:
        return {(0, i): part for i, part in enumerate(w.chunk(2, 1))}
    return {(i, 0): part for i, part in enumerate(w.chunk(4 if "linear_fc1" in name else 2))}


def flattened(w, name):
    """A torch ShardedTensor of shards [1, ..., n] of w, which has the layers first if it is one of them."""
    from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor
    from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties
    layers = [((i,), w[i]) for i in range(len(w))] if name.startswith("decoder.layers") else [((), w)]
    shards, grid = [], ()
    for layer, one in layers:
        for place, part in cut(one, name).items():
            flat, offset = layer + place, 0
            grid = tuple(max(a, b + 1) for a, b in itertools.zip_longest(grid, flat, fillvalue=0))
            for piece in part.flatten().tensor_split([part.numel() // 3]):  # in a row
                shards.append(Shard.from_tensor_and_offsets(piece.clone().view((1,) * len(flat) + (-1,)), [*flat, offset], 0))
                offset += len(piece)
    about = ShardedTensorMetadata([s.metadata for s in shards], torch.Size(grid + (offset,)), TensorProperties(dtype=w.dtype))
    return ShardedTensor._init_from_local_shards_and_global_metadata(shards, about)


def nemo_common(rate):
    """common.pt of NeMo 2: what Lightning keeps of a trainer, and of its data (nemo/collections/llm/gpt/data/pre_training.py)."""
    return {"epoch": 0, "global_step": STEPS, "lr_schedulers": [{"last_epoch": STEPS, "_last_lr": [rate]}],
            "PreTrainingDataModule": {"consumed_samples": STEPS * ROWS},
            "optimizer": [{"optimizer": {"param_groups": [{"lr": rate, "step": STEPS}]}}]}


def save_megatron(case, weights, moments, rate, folder):
    prefix = "module." if case == "nemo" else ""
    if case == "nemo":
        folder += f"/checkpoints/llama--step={STEPS - 1}-consumed_samples={STEPS * ROWS}.0-last/weights"

    def to(tensors):
        return {prefix + name: w for name, w in models.to_megatron_dist(tensors, CONFIG).items()}
    state = {name: w.bfloat16() for name, w in to(weights).items()}
    master = "fp32_param" if case == "flattened" else "param"
    for key, of in (moments | {master: weights}).items():
        state |= {f"optimizer.state.{key}.{name}": (flattened(w, name) if case == "flattened" else w) for name, w in to(of).items()}
    dcp.save(state, checkpoint_id=folder)
    args = models.megatron_args(CONFIG, CONFIG["vocab_size"], 2, 1, consumed_train_samples=STEPS * ROWS)
    optimizer = {"optimizer": {"param_groups": [{"lr": rate, "step": STEPS, "weight_decay": DECAY}]}, "param_state_sharding_type": case}
    megatron = {"args": args, "iteration": STEPS, "checkpoint_version": 3.0, "optimizer": optimizer}
    torch.save(nemo_common(rate) if case == "nemo" else megatron, folder + "/common.pt")


def train(rank, port, seed, folder, cases, more, lean):
    from torch.distributed.device_mesh import init_device_mesh
    from transformers import AutoModelForCausalLM, LlamaConfig
    join_group(rank, port, WORLD)
    mesh = init_device_mesh("cpu", (WORLD,))
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(LlamaConfig(**CONFIG, initializer_range=0.2, attn_implementation="eager")).float()
    fully_sharded(model, mesh)
    optimizer, schedule = adamw_of(model)
    stream = tokens_of(seed)
    x, y = stream[:-1].view(ROWS, TOKENS), stream[1:].view(ROWS, TOKENS)
    for _ in range(STEPS):
        take_step(model, optimizer, schedule, x, y)
    weights, moments = state_of(model, optimizer)
    for case in cases:
        if case not in MEGATRON:
            save_dcp(case, model, optimizer, schedule, f"{folder}/{case}", mesh, lean)
    if rank == 0:
        save_file(weights | {f"{key}.{name}": w for key, of in moments.items() for name, w in of.items()}, f"{folder}/before.safetensors")
    losses = [take_step(model, optimizer, schedule, x, y) for _ in range(more)]
    after, _ = state_of(model, optimizer)
    if rank == 0:
        save_file(after, f"{folder}/after.safetensors")
        pathlib.Path(folder, "losses.json").write_text(json.dumps(losses))
        pathlib.Path(folder, "rate.json").write_text(json.dumps(LR * (STEPS + 1) / WARMUP))
    dist.destroy_process_group()


def train_and_save(seed, folder, cases, more=MORE, lean=False):
    """Writes FOLDER/CASE, the state when they were saved (before.safetensors), and what torch came to afterwards."""
    port = random.Random().randint(20000, 30000)
    mp.spawn(train, args=(port, seed, str(folder), cases, more, lean), nprocs=WORLD)
    before = load_file(f"{folder}/before.safetensors")
    moments = {key: {n.removeprefix(key + "."): w for n, w in before.items() if n.startswith(key + ".")} for key in ("exp_avg", "exp_avg_sq")}
    weights = {n: w for n, w in before.items() if not n.startswith("exp_avg")}
    join_group(0, port + 1, 1)
    for case in cases:
        if case in MEGATRON:
            save_megatron(case, weights, moments, json.loads(pathlib.Path(folder, "rate.json").read_text()), f"{folder}/{case}")
        pathlib.Path(folder, case, "config.json").write_text(json.dumps(CONFIG))
    dist.destroy_process_group()
    write_dataset(f"{folder}/data", tokens_of(seed))


def run_config(folder, case, run_dir):
    return {"model": {"from": f"{folder}/{case}", "weights": "resume"},
            "data": {"train": f"{folder}/data", "sequence_length": TOKENS, "pack": "stream", "split": [1, 0, 0]},
            "training": {"steps": STEPS + MORE, "global_batch_size": ROWS, "micro_batch_size": ROWS, "precision": "fp32", "eval_every": 0},
            "optimizer": {"lr": LR, "betas": list(BETAS), "eps": EPS, "weight_decay": DECAY, "clip_grad_norm": CLIP},
            "schedule": {"type": "constant", "warmup_steps": WARMUP}, "run_dir": run_dir}


def compare(drover, folder, case, *sets, ranks=1):
    run = f"{folder}/run-{case}"
    shutil.rmtree(run, ignore_errors=True)
    config = pathlib.Path(folder, "run.json")
    config.write_text(json.dumps(run_config(folder, case, run)))
    start = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*start, drover, "train", config, *sets], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{case}: {done.stderr}")
    if "learning rate" in done.stderr:
        sys.exit(f"{case}: the rates differ: {done.stderr}")
    losses = [o["loss"] for o in map(json.loads, open(f"{run}/metrics.jsonl")) if "loss" in o]
    truth, after = json.loads(pathlib.Path(folder, "losses.json").read_text()), load_file(f"{folder}/after.safetensors")
    found = load_file(f"{run}/checkpoints/step-{STEPS + MORE:06d}/model.safetensors")
    assert len(losses) == MORE and found.keys() == after.keys(), (losses, sorted(found))
    loss = max(abs(a - b) for a, b in zip(losses, truth))
    weight = max((found[n] - w).abs().max().item() / w.abs().max().item() for n, w in after.items())
    print(f"{case} {' '.join(sets)}: losses {loss:.1e}, weights {weight:.1e} apart")
    return loss < 1e-5 and weight < 2e-6


def main():
    drover, cases = os.path.abspath(sys.argv[1]), sys.argv[2:] or ["hf", "plain", "titan", *MEGATRON]
    with tempfile.TemporaryDirectory() as folder:
        train_and_save(1, folder, cases)
        bad = [case for case in cases if not compare(drover, folder, case)]
        for layout in (dict(tensor=2), dict(pipeline=2), dict(data=2, zero=1), dict(data=2, zero=2), dict(data=2, zero=3)):
            sets = [s for key, n in layout.items() for s in ("--set", f"parallel.{key}={n}")] + ["--set", "training.micro_batch_size=2"]
            bad += [f"{layout}"] if not compare(drover, folder, cases[0], *sets, ranks=2) else []
    sys.exit(f"too far apart: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
