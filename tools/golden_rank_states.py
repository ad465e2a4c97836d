#!/usr/bin/env python3
"""Writes tests/golden/rank_states: a small Llama (model, with what its optimizer keeps in state.safetensors), as trainers that write a
file for each rank save it in mid-run, by tools/foreign_optimizers.py; and the files that fuzzing begins with. Needs torch.

    float16      Megatron's Float16OptimizerWithFloat16Params, 2 stages, older names
    distributed  its distributed optimizer, 2 stages
    zero         NxD's ZeRO-1, 2 tensor ranks that share a head of keys, 2 data ranks, master weights
    nnm          neuronx-nemo-megatron, 2 stages, all in the checkpoints
    nnm_zero     the same with ZeRO-1 of 2 data ranks
    tied         NxD with xser and torch's AdamW, a tied model that has its table twice, steps as integers; its own model and state
    midrun       the run of tests/golden/foreign/midrun (tools/check_resume.py), as Megatron's distributed optimizer saves it, in bf16
                 with masters: 2 tensor ranks, 2 stages
    bad          files that are wrong in one way each: of rank 0 of zero, and (buckets) of stage 1 of distributed
"""
import json, pathlib, random, shutil
import torch
from safetensors.torch import load_file, save_file
import foreign_models as models
import foreign_optimizers as optimizers

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests"
CONFIG = dict(models.draw_config(random.Random(1)), hidden_size=8, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2,
              num_key_value_heads=1, head_dim=4, vocab_size=8, tie_word_embeddings=False, torch_dtype="bfloat16")


def write_bad(folder, tensors, kinds):
    folder.mkdir()
    part_of = lambda full: models.nxd_rank(full, CONFIG, 0, 2, 2, False)
    states = lambda **how: optimizers.nxd_optimizer(tensors, kinds, False, masters=False, **how)(part_of)[0]
    keys = lambda params: [k for k, (name, _) in enumerate(params) if name.endswith("layers.0.self_attn.qkv_proj.weight_k")]
    torch.save(states(rule=lambda params: ([k for k in range(len(params)) if k not in keys(params)], keys(params))), folder / "groups.pt")
    for name, key, change in (("size", "exp_avg_sq", lambda w: w[:1].clone()), ("step", "step", lambda w: w + 1), ("type", "exp_avg", lambda w: w.bfloat16())):
        state = states()
        for kept in state["base_state"].values():
            kept[key] = change(kept[key])
        torch.save(state, folder / f"{name}.pt")
    chunks = lambda full: models.megatron_rank(full, CONFIG, 0, 1, 1, 2)
    torch.save(optimizers.megatron_buffers(chunks(tensors), {k: chunks(f) for k, f in kinds.items()}, True, 72), folder / "buckets.pt")


def write_seeds(folder):
    """Of a model with three tensors, which tests/fuzz/fuzz_optimizer_states.c has as well."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tensors = {"model.embed_tokens.weight": torch.zeros(4, 2), "model.norm.weight": torch.ones(2), "lm_head.weight": torch.zeros(4, 2)}
    tensors = {name: w.bfloat16() for name, w in tensors.items()}
    kinds = optimizers.draw_state(tensors, 1)
    for form in "torch", "apex", "distributed":
        made = optimizers.megatron_optimizer(tensors, kinds, form=form)(folder, lambda full: [full])
        torch.save(made["optimizer"], folder / f"{form}.pt")
    for d, state in enumerate(optimizers.nxd_optimizer(tensors, kinds, False)(lambda full: full)):
        torch.save(state, folder / f"shard{d}.pt")
    (folder / "distrib_optim.pt").rename(folder / "buffers.pt")


def write_run(folder):
    """What torch has after 5 steps, by the checkpoint of ours that tools/golden_foreign.py made of it."""
    own = ROOT / "golden/foreign/midrun/own"
    config, masters, moments = json.loads((own / "config.json").read_text()), load_file(own / "model.safetensors"), load_file(own / "optimizer.safetensors")
    kinds = {key: {name.removeprefix(f"{key}."): w for name, w in moments.items() if name.startswith(f"{key}.")} for key in ("exp_avg", "exp_avg_sq")}
    tensors, kinds["master"] = {name: w.bfloat16() for name, w in masters.items()}, masters
    models.write_megatron(folder, tensors, config, pipeline=2, iteration=5, rows=4,
                          optimizer=optimizers.megatron_optimizer(tensors, kinds, "distributed", step=5, rate=0.0075))
    (folder / "config.json").write_text(json.dumps(config))


def write_tied(folder):
    config = CONFIG | dict(tie_word_embeddings=True, num_hidden_layers=1)
    tensors = models.write_model(folder, config, 3)
    kinds = optimizers.draw_state(tensors, 4)
    save_file(optimizers.expected(kinds, False), folder / "state.safetensors")
    (folder / "model.safetensors").unlink()
    twice = lambda full: full | {"lm_head.weight": full["model.embed_tokens.weight"]}
    kinds = {kind: twice(full) for kind, full in kinds.items()}
    make = optimizers.nxd_optimizer(twice(tensors), kinds, True, zero=False, counts=True)
    models.write_nxd(folder, twice(tensors), config, tensor=1, xser=True, optimizer=make)


def main():
    golden = ROOT / "golden/rank_states"
    shutil.rmtree(golden, ignore_errors=True)
    golden.mkdir(parents=True)
    tensors = models.write_model(golden / "model", CONFIG, 1)
    kinds = optimizers.draw_state(tensors, 2)
    save_file(optimizers.expected(kinds, True), golden / "model/state.safetensors")
    megatron = lambda **how: optimizers.megatron_optimizer(tensors, kinds, **how)
    nemo = lambda **how: optimizers.nnm_optimizer(tensors, kinds, **how)
    models.write_megatron(golden / "float16", tensors, CONFIG, tensor=1, pipeline=2, spec="classic", args=False, optimizer=megatron(decay_first=False))
    models.write_megatron(golden / "distributed", tensors, CONFIG, tensor=1, pipeline=2, optimizer=megatron(form="distributed"))
    models.write_nxd(golden / "zero", tensors, CONFIG, copies=2, optimizer=optimizers.nxd_optimizer(tensors, kinds, False))
    models.write_nnm(golden / "nnm", tensors, CONFIG, tensor=1, pipeline=2, optimizer=nemo())
    models.write_nnm(golden / "nnm_zero", tensors, CONFIG, tensor=1, optimizer=nemo(ranks=2))
    write_tied(golden / "tied")
    write_run(golden / "midrun")
    write_bad(golden / "bad", tensors, kinds)
    write_seeds(ROOT / "corpus/optimizer_states")


if __name__ == "__main__":
    main()
