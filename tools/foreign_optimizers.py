"""Makes the optimizer states of other trainers for a model of tools/foreign_models.py, from full tensors and after their public
sources; trainers that save torch's AdamW get its own state dict. megatron/core/optimizer/{optimizer,distrib_optimizer}.py,
torch_xla/distributed/zero_redundancy_optimizer.py, neuronx_distributed/trainer/checkpoint.py,
neuronx-nemo-megatron's nemo/collections/nlp/parts/nlp_overrides.py. Used by tools/check_foreign.py and tools/golden_foreign.py."""
import torch
from torch import nn

STEP, RATE = 7, 0.00125


def draw_state(tensors, seed):
    """Full tensors of each kind. Rounded, a master is the weight."""
    generator = torch.Generator().manual_seed(seed)
    kinds = {"exp_avg": {}, "exp_avg_sq": {}, "master": {}}
    for name, w in tensors.items():
        kinds["exp_avg"][name] = torch.randn(w.shape, generator=generator)
        kinds["exp_avg_sq"][name] = torch.rand(w.shape, generator=generator)
        near = w.float() * (1 + torch.rand(w.shape, generator=generator) * 2**-14)
        kinds["master"][name] = torch.where(near.to(w.dtype) == w, near, w.float())
    return kinds


def expected(kinds, with_masters):
    """As drover names them."""
    return {f"{kind}.{name}": w for kind, all_of in kinds.items() if kind != "master" or with_masters for name, w in all_of.items()}


# --- groups
def by_dimensions(params):
    """Megatron: vectors have no decay. In which order the groups are differs from version to version."""
    return [k for k, (_, w) in enumerate(params) if w.dim() > 1], [k for k, (_, w) in enumerate(params) if w.dim() == 1]


def by_modules(params):
    """NeMo: norms that are modules of their own have no decay."""
    apart = [k for k, (name, _) in enumerate(params) if name.endswith("norm.weight")]
    return [k for k in range(len(params)) if k not in apart], apart


def all_in_one(params):
    return list(range(len(params))), []


def adamw(params, groups, moments, own_step=True, step=STEP, rate=RATE):
    """torch's AdamW with these moments. own_step: each parameter has it; else the group, as Apex and Transformer Engine have it."""
    of = [nn.Parameter(w.float()) for _, w in params]
    listed = [{"params": [of[k] for k in group], "wd_mult": mult, "lr_mult": 1.0} for group, mult in groups]
    optimizer = torch.optim.AdamW(listed, lr=rate)
    for k, p in enumerate(of):
        optimizer.state[p] = ({"step": torch.tensor(float(step))} if own_step else {}) | {kind: moments[kind][k].clone() for kind in ("exp_avg", "exp_avg_sq")}
    out = optimizer.state_dict()
    for group in out["param_groups"] if not own_step else []:
        group["step"] = step
    return out


def flat(chunks):
    return [(name, w) for chunk in chunks for name, w in chunk.items()]


def in_groups(values, groups):
    return [[values[k] for k in group] for group, _ in groups]


# --- Megatron
def buffer_offsets(sizes, padded, bucket_size=None):
    """Where parameters lie in the vector of a chunk, whose buckets follow each other without what is padded after them."""
    offsets, before, start, end = [], 0, 0, 0
    for size in sizes[::-1]:
        first = -(-end // 64) * 64 if padded else end
        offsets.append(before + first - start)
        end = first + size
        if bucket_size and end - start >= bucket_size:
            before, end = before + end - start, -(-end // 128) * 128
            start = end
    return offsets[::-1], before + end - start


def megatron_buffers(chunks, kinds, padded, bucket_size=None):
    out = {"buckets_coalesced": True}
    for v, chunk in enumerate(chunks):
        offsets, n = buffer_offsets([w.numel() for w in chunk.values()], padded, bucket_size)
        vectors = {}
        for key, kind in (("param", "master"), ("exp_avg", "exp_avg"), ("exp_avg_sq", "exp_avg_sq")):
            vectors[key] = torch.zeros(n)
            for w, first in zip(kinds[kind][v].values(), offsets):
                vectors[key][first:first + w.numel()] = w.flatten()
        out[v] = {(torch.bfloat16, torch.float32): vectors | {"numel_unpadded": n}}
    return out


def megatron_optimizer(tensors, kinds, form="torch", rule=by_dimensions, decay_first=True, padded=True, bucket_size=None, step=STEP, rate=RATE):
    """For write_megatron and write_nnm. form: torch, apex (both of Float16OptimizerWithFloat16Params), fp32, or distributed."""
    def make(place, part_of):
        as_chunks = lambda part: part if isinstance(part, list) else [part]
        chunks, of = as_chunks(part_of(tensors)), {kind: as_chunks(part_of(full)) for kind, full in kinds.items()}
        params = flat(chunks)
        groups = [g for g in list(zip(rule(params), (1.0, 0.0)))[::1 if decay_first else -1] if g[0] or form != "apex"]  # older ones keep no empty group
        values = {kind: [w for _, w in flat(parts)] for kind, parts in of.items()}
        inner = adamw(params, groups, values, form != "apex", step, rate)
        if form == "distributed":
            for group in inner["param_groups"]:
                del group["params"]
                group["step"] = step
            torch.save(megatron_buffers(chunks, of, padded, bucket_size), place / "distrib_optim.pt")
            return {"optimizer": {"optimizer": {"param_groups": inner["param_groups"]}}}
        if form == "fp32":
            return {"optimizer": inner}
        masters = in_groups([w if p.element_size() < 4 else None for (_, p), w in zip(params, values["master"])], groups)
        masters = [[w for w in group if w is not None] for group in masters]
        return {"optimizer": {"optimizer": inner, "fp32_from_fp16_params": masters}}
    return make


# --- ZeRO-1 of torch_xla
def shard(w, rank, ranks):
    padding = [0, 0] * (w.dim() - 1) + [0, -len(w) % ranks]
    return torch.nn.functional.pad(w, padding).chunk(ranks)[rank].clone()


def zero_states(params, values, groups, ranks, masters):
    """The state dict of each data rank. Numbers go on from group to group."""
    order = [k for group, _ in groups for k in group]
    full = adamw(params, groups, values)
    for d in range(ranks):
        out = {"state": {}, "param_groups": full["param_groups"],
               "base_state": {n: {key: w if key == "step" else shard(w, d, ranks) for key, w in s.items()} for n, s in full["state"].items()},
               "shape_info": {n: params[k][1].shape for n, k in enumerate(order)}}
        if masters:
            out["sharded_master_weights"] = {n: shard(values["master"][k], d, ranks) for n, k in enumerate(order)}
        yield out


def nxd_optimizer(tensors, kinds, tied, rule=by_dimensions, ranks=2, zero=True, masters=True, wide=False, counts=False):
    """For write_nxd. zero: else torch's AdamW. wide: float64, which holds fp32 values (XLA_DOWNCAST_BF16). counts: steps are integers,
    as AdamW_FP32OptimParams has them."""
    def make(part_of):
        part = part_of(tensors)
        names = [name for name in part if not (tied and name == "lm_head.weight" and "model.embed_tokens.weight" in part)]
        params = [(name, part[name]) for name in names]
        values = {kind: [full[name].double() if wide else full[name] for name in names] for kind, full in ((k, part_of(f)) for k, f in kinds.items())}
        groups = list(zip(rule(params), (1.0, 0.0)))
        states = list(zero_states(params, values, groups, ranks, masters)) if zero else [adamw(params, groups, values)]
        for kept in (kept for state in states if counts for kept in state["base_state" if zero else "state"].values()):
            kept["step"] = int(kept["step"])
        return states
    return make


def nnm_optimizer(tensors, kinds, rule=by_modules, ranks=0, masters=True):
    """For write_nnm. ranks: data ranks of ZeRO-1, whose files lie beside; 0: all in the checkpoint, with the masters of its wrapper."""
    def make(place, part_of):
        params, values = list(part_of(tensors).items()), {kind: list(part_of(full).values()) for kind, full in kinds.items()}
        groups = list(zip(rule(params), (1.0, 0.0)))
        for d, state in enumerate(zero_states(params, values, groups, ranks, masters) if ranks else []):
            folder = place / "optim" / f"dp_rank_{d:03d}"
            folder.mkdir(parents=True)
            torch.save([state], folder / "llm--step=7-consumed_samples=224.0-optimizer_states.ckpt")
        if ranks:
            return {}
        inner = adamw(params, groups, values)
        if not masters:
            return {"optimizer_states": [inner]}
        return {"optimizer_states": [{"optimizer": inner, "fp32_from_fp16_params": in_groups(values["master"], groups)}]}
    return make
