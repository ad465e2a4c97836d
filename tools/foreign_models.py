#!/usr/bin/env python3
"""Makes a small random Llama as a Hugging Face folder, and its tensors under the names and in the layouts of other trainers. It
follows the public sources: torchtitan/models/llama3/state_dict_adapter.py, megatron/core/models/gpt and
megatron/core/transformer/{attention,mlp}.py. Used by tools/check_dcp.py."""
import json, pathlib
import torch
from safetensors.torch import save_file


def draw_config(draw):
    kv_heads = draw.choice([1, 2, 4])
    heads = kv_heads * draw.choice([1, 2, 4])
    return dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=heads * 4 if draw.random() < 0.5 else 24,
                intermediate_size=8 * draw.randint(1, 5), num_hidden_layers=draw.randint(1, 4), num_attention_heads=heads,
                num_key_value_heads=kv_heads, head_dim=4, vocab_size=8 * draw.randint(2, 7), rms_norm_eps=1e-5, rope_theta=10000.0,
                max_position_embeddings=64, tie_word_embeddings=draw.random() < 0.4, hidden_act="silu",
                torch_dtype=draw.choice(["bfloat16", "float32", "float16"]))


def shapes(c):
    hidden, rows = c["hidden_size"], c["intermediate_size"]
    queries, keys = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    layer = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [queries, hidden],
             "self_attn.k_proj": [keys, hidden], "self_attn.v_proj": [keys, hidden], "self_attn.o_proj": [hidden, queries],
             "mlp.gate_proj": [rows, hidden], "mlp.up_proj": [rows, hidden], "mlp.down_proj": [hidden, rows]}
    all_of = {"model.embed_tokens.weight": [c["vocab_size"], hidden], "model.norm.weight": [hidden]}
    if not c["tie_word_embeddings"]:
        all_of["lm_head.weight"] = [c["vocab_size"], hidden]
    for i in range(c["num_hidden_layers"]):
        all_of |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return all_of


def write_model(folder, config, seed):
    """Writes the folder and returns its tensors."""
    generator, dtype = torch.Generator().manual_seed(seed), getattr(torch, config["torch_dtype"])
    tensors = {name: (torch.randn(shape, generator=generator) * 0.3 + (len(shape) == 1)).to(dtype) for name, shape in shapes(config).items()}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return tensors


def rotary_pairs(weight, heads):
    """Meta's order of rows: the halves of each rotary pair side by side."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def to_torchtitan(tensors, c, main=False):
    names = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attention.wo",
             "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"}
    names |= {f"self_attn.{x}_proj": f"attention.{'qkv_linear.' if main else ''}w{x}" for x in "qkv"}
    head = "lm_head.weight" if main else "output.weight"
    out = {"tok_embeddings.weight": tensors["model.embed_tokens.weight"], "norm.weight": tensors["model.norm.weight"],
           head: tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])}
    for i in range(c["num_hidden_layers"]):
        for ours, theirs in names.items():
            w = tensors[f"model.layers.{i}.{ours}.weight"]
            if ours.endswith("q_proj"):
                w = rotary_pairs(w, c["num_attention_heads"])
            if ours.endswith("k_proj"):
                w = rotary_pairs(w, c["num_key_value_heads"])
            out[f"layers.{i}.{theirs}.weight"] = w
    return out


def fused_qkv(layer, c):
    """Of each group of heads its queries, its key and its value."""
    groups = c["num_key_value_heads"]
    parts = [layer[f"self_attn.{x}_proj.weight"] for x in "qkv"]
    columns = parts[0].shape[1]
    return torch.cat([p.view(groups, -1, columns) for p in parts], 1).reshape(-1, columns)


def to_megatron_layer(tensors, c, i):
    """A layer under Megatron-Core's names, with the norms where Transformer Engine has them."""
    prefix = f"model.layers.{i}."
    layer = {name[len(prefix):]: w for name, w in tensors.items() if name.startswith(prefix)}
    return {"self_attention.linear_qkv.layer_norm_weight": layer["input_layernorm.weight"],
            "self_attention.linear_qkv.weight": fused_qkv(layer, c), "self_attention.linear_proj.weight": layer["self_attn.o_proj.weight"],
            "mlp.linear_fc1.layer_norm_weight": layer["post_attention_layernorm.weight"],
            "mlp.linear_fc1.weight": torch.cat([layer["mlp.gate_proj.weight"], layer["mlp.up_proj.weight"]]),
            "mlp.linear_fc2.weight": layer["mlp.down_proj.weight"]}


def to_megatron_dist(tensors, c):
    """Megatron-Core's distributed checkpoint: all layers of a tensor are one, with the layer as its first dimension."""
    layers = [to_megatron_layer(tensors, c, i) for i in range(c["num_hidden_layers"])]
    out = {f"decoder.layers.{name}": torch.stack([layer[name] for layer in layers]) for name in layers[0]}
    out |= {"embedding.word_embeddings.weight": tensors["model.embed_tokens.weight"], "decoder.final_layernorm.weight": tensors["model.norm.weight"]}
    if "lm_head.weight" in tensors:
        out["output_layer.weight"] = tensors["lm_head.weight"]
    return out


def local_names(layer):
    """The names of Megatron-Core's local spec, where norms are modules of their own."""
    names = {"self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight", "mlp.linear_fc1.layer_norm_weight": "pre_mlp_layernorm.weight"}
    return {names.get(name, name): w for name, w in layer.items()}


def classic_names(layer):
    """The names of Megatron-LM before Megatron-Core, and of NeMo 1."""
    names = {"self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight", "self_attention.linear_qkv.weight": "self_attention.query_key_value.weight",
             "self_attention.linear_proj.weight": "self_attention.dense.weight", "mlp.linear_fc1.layer_norm_weight": "post_attention_layernorm.weight",
             "mlp.linear_fc1.weight": "mlp.dense_h_to_4h.weight", "mlp.linear_fc2.weight": "mlp.dense_4h_to_h.weight"}
    return {names[name]: w for name, w in layer.items()}


def tensor_part(name, w, rank, ranks):
    """The part of a tensor of one layer that a tensor rank of Megatron holds."""
    if "norm" in name:
        return w
    if "linear_proj" in name or "linear_fc2" in name or name.endswith(("dense.weight", "dense_4h_to_h.weight")):
        return w.chunk(ranks, 1)[rank].clone()
    if "linear_fc1" in name or "dense_h_to_4h" in name:  # of gate and of up
        return torch.cat([half.chunk(ranks)[rank] for half in w.chunk(2)])
    return w.chunk(ranks)[rank].clone()


def megatron_args(c, padded, tensor, pipeline, **more):
    import argparse
    return argparse.Namespace(num_layers=c["num_hidden_layers"], hidden_size=c["hidden_size"], ffn_hidden_size=c["intermediate_size"],
                              num_attention_heads=c["num_attention_heads"], group_query_attention=True, num_query_groups=c["num_key_value_heads"],
                              kv_channels=c["head_dim"], padded_vocab_size=padded, max_position_embeddings=c["max_position_embeddings"],
                              rotary_base=int(c["rope_theta"]), rotary_percent=1.0, norm_epsilon=c["rms_norm_eps"], swiglu=True, add_bias_linear=False,
                              normalization="RMSNorm", position_embedding_type="rope", untie_embeddings_and_output_weights=not c["tie_word_embeddings"],
                              tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline, params_dtype=torch.bfloat16, **more)


def pad_rows(w, multiple):
    return torch.cat([w, torch.zeros(-len(w) % multiple, w.shape[1], dtype=w.dtype)])


def megatron_rank(tensors, c, t, p, tensor, pipeline, virtual=1, spec="te"):
    """The tensors of each model chunk of a rank, in the order of its modules."""
    name_of = {"te": lambda layer: layer, "local": local_names, "classic": classic_names}[spec]
    n, stages, chunks = c["num_hidden_layers"], pipeline * virtual, []
    embedding, head = (pad_rows(tensors[k], 8 * tensor) if k in tensors else None for k in ("model.embed_tokens.weight", "lm_head.weight"))
    classic = spec == "classic"
    for v in range(virtual):
        stage = v * pipeline + p
        first, chunk = stage * n // stages, {}
        if stage == 0:
            chunk[("language_model." if classic else "") + "embedding.word_embeddings.weight"] = embedding.chunk(tensor)[t].clone()
        for i in range(first, (stage + 1) * n // stages):
            chunk |= {f"{'language_model.encoder' if classic else 'decoder'}.layers.{i - first}.{name}": tensor_part(name, w, t, tensor)
                      for name, w in name_of(to_megatron_layer(tensors, c, i)).items()}
        if stage == stages - 1:
            chunk["language_model.encoder.final_layernorm.weight" if classic else "decoder.final_layernorm.weight"] = tensors["model.norm.weight"]
            out = (embedding if head is None else head).chunk(tensor)[t].clone()
            if head is not None:
                chunk["language_model.output_layer.weight" if classic else "output_layer.weight"] = out
            elif stages > 1:
                chunk["word_embeddings_for_head.weight" if classic else "output_layer.weight"] = out
        chunks.append(chunk)
    return chunks


def nested(chunk):
    """The older checkpoints have dicts of modules, but for the encoder's, whose names have dots."""
    out = {}
    for name, w in chunk.items():
        path, leaf = name.split("."), None
        if "encoder" in path:
            path, leaf = path[:2], ".".join(path[2:])
        else:
            path, leaf = path[:-1], path[-1]
        at = out
        for key in path:
            at = at.setdefault(key, {})
        at[leaf] = w
    return out


def write_megatron(folder, tensors, c, tensor=2, pipeline=1, virtual=1, spec="te", args=True, iteration=7, rows=32, optimizer=None):
    """mp_rank_TT[_PPP]/model_optim_rng.pt as megatron/training/checkpointing.py writes it. spec: te, local or classic. `optimizer`
    takes the folder of a rank and a function that returns the chunks of any full tensors, and returns what its file has beside. rows: of
    a step."""
    folder, padded = pathlib.Path(folder), len(pad_rows(tensors["model.embed_tokens.weight"], 8 * tensor))
    for t in range(tensor):
        for p in range(pipeline):
            state = {"checkpoint_version": 3.0, "iteration": iteration}
            if args:
                state["args"] = megatron_args(c, padded, tensor, pipeline, consumed_train_samples=rows * iteration)
            for v, chunk in enumerate(megatron_rank(tensors, c, t, p, tensor, pipeline, virtual, spec)):
                model = nested(chunk) if spec == "classic" else dict(chunk)
                if spec == "te":
                    model["decoder.layers.0.mlp.linear_fc1._extra_state"] = None
                state["model" if virtual == 1 else f"model{v}"] = model
            place = folder / f"iter_{iteration:07d}" / (f"mp_rank_{t:02d}" + (f"_{p:03d}" if pipeline > 1 else ""))
            place.mkdir(parents=True, exist_ok=True)
            if optimizer:
                state |= optimizer(place, lambda full: megatron_rank(full, c, t, p, tensor, pipeline, virtual, spec))
            torch.save(state, place / "model_optim_rng.pt")
    (folder / "latest_checkpointed_iteration.txt").write_text(str(iteration))


# --- NxD: neuronx_distributed/scripts/checkpoint_converter.py and its trainer
def nxd_query_order(w, c, copies):
    """Heads of q, or of the columns of o_proj transposed, in the order of the ranks: rank r has heads of key r mod kv_heads."""
    own = c["num_attention_heads"] // (c["num_key_value_heads"] * copies)
    parts = w.reshape(-1, own * c["head_dim"], w.shape[1])
    return torch.cat([parts[j * copies + i] for i in range(copies) for j in range(c["num_key_value_heads"])])


def nxd_rank(tensors, c, t, ranks, copies, fused):
    part = {}
    for name, w in tensors.items():
        if name.endswith(("q_proj.weight", "o_proj.weight")):
            columns = name.endswith("o_proj.weight")
            w = nxd_query_order(w.T if columns else w, c, copies).chunk(ranks)[t]
            w = w.T.contiguous() if columns else w
        elif name.endswith(("k_proj.weight", "v_proj.weight")):
            w = w.repeat(copies, 1).chunk(ranks)[t].clone()
        elif name.endswith("down_proj.weight"):
            w = w.chunk(ranks, 1)[t].clone()
        elif "norm" not in name:
            w = w.chunk(ranks)[t].clone()
        part[name] = w
    out = {}
    for name, w in part.items():
        layer = name.rsplit(".", 3)[0]
        if name.endswith("gate_proj.weight"):
            out[name.replace("gate_proj", "gate_up_proj")] = torch.cat([w, part[name.replace("gate", "up")]])
        elif name.endswith("q_proj.weight") and fused:
            out[name.replace("q_proj.weight", "qkv_proj.weight_qkv")] = torch.cat([part[name.replace("q_proj", f"{x}_proj")] for x in "qkv"])
        elif name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            if not fused:
                out[name.replace(f"{name[-13]}_proj.weight", f"qkv_proj.weight_{name[-13]}")] = w
        elif not name.endswith("up_proj.weight"):
            out[name] = w
    return out


def on_stage(tensors, c, p, stages):
    """The tensors of a pipeline stage, under the numbers that their layers have in the model."""
    n = c["num_hidden_layers"]
    mine = range(p * n // stages, (p + 1) * n // stages)
    return {name: w for name, w in tensors.items() if (int(name.split(".")[2]) in mine if ".layers." in name else
            p == (0 if "embed_tokens" in name else stages - 1))}


def save_xser(state, path):
    """torch_xla.utils.serialization: references in the file, tensors beside it. The class is a stand-in of the same name."""
    import sys, types
    module = sys.modules.setdefault("torch_xla.utils.serialization", types.ModuleType("torch_xla.utils.serialization"))
    for parent in ("torch_xla", "torch_xla.utils"):
        sys.modules.setdefault(parent, types.ModuleType(parent))
    if not hasattr(module, "TensorReference"):
        module.TensorReference = type("TensorReference", (), {"__module__": module.__name__, "__init__": lambda self, tid: setattr(self, "tid", tid)})
    folder = pathlib.Path(f"{path}.tensors")
    folder.mkdir()
    count = 0

    def refer(value):
        nonlocal count
        if isinstance(value, torch.Tensor):
            torch.save(value, folder / f"tensor_{count}.pt")
            count += 1
            return module.TensorReference(count - 1)
        if isinstance(value, dict):
            return {key: refer(v) for key, v in value.items()}
        return [refer(v) for v in value] if isinstance(value, list) else value

    torch.save(refer(state), path)


def write_nxd(folder, tensors, c, tensor=2, pipeline=1, copies=1, fused=False, xser=False, below="model", optimizer=None):
    """`optimizer` takes a function that returns a rank's part of any full tensors, and returns the states of the data ranks."""
    folder, save = pathlib.Path(folder) / below, save_xser if xser else torch.save
    folder.mkdir(parents=True)
    for t in range(tensor):
        for p in range(pipeline):
            part_of = lambda full: on_stage(nxd_rank(full, c, t, tensor, copies, fused), c, p, pipeline)
            save(part_of(tensors), folder / f"dp_rank_00_tp_rank_{t:02d}_pp_rank_{p:02d}.pt")
            for d, state in enumerate(optimizer(part_of) if optimizer else []):
                (folder.parent / "optim").mkdir(exist_ok=True)
                save(state, folder.parent / "optim" / f"dp_rank_{d:02d}_tp_rank_{t:02d}_pp_rank_{p:02d}.pt")


# --- neuronx-nemo-megatron: nemo/examples/nlp/language_modeling/checkpoint_conversion/convert_hf_checkpoint_to_nemo_llama*.py
def nnm_rank(tensors, c, t, p, tensor, pipeline, split):
    n, prefix, state = c["num_hidden_layers"], "model.language_model.", {}
    first = p * n // pipeline
    if p == 0:
        state[prefix + "embedding.word_embeddings.weight"] = tensors["model.embed_tokens.weight"].chunk(tensor)[t].clone()
    for i in range(first, (p + 1) * n // pipeline):
        layer = classic_names(to_megatron_layer(tensors, c, i))
        if split:
            q, k, v = (tensors[f"model.layers.{i}.self_attn.{x}_proj.weight"] for x in "qkv")
            heads = c["num_key_value_heads"]
            del layer["self_attention.query_key_value.weight"]
            layer["self_attention.query.weight"] = q
            layer["self_attention.key_value.weight"] = torch.stack([k.view(heads, -1, k.shape[1]), v.view(heads, -1, k.shape[1])], 1).reshape(-1, k.shape[1])
        state |= {f"{prefix}encoder.layers.{i - first}.{name}": tensor_part(name, w, t, tensor) for name, w in layer.items()}
    if p == pipeline - 1:
        state[prefix + "encoder.final_layernorm.weight"] = tensors["model.norm.weight"]
        if "lm_head.weight" in tensors:
            state[prefix + "output_layer.weight"] = tensors["lm_head.weight"].chunk(tensor)[t].clone()
    return state


def write_nnm(folder, tensors, c, tensor=2, pipeline=1, split=False, optimizer=None):
    """Lightning checkpoints of ranks. split: query and key_value apart, as its older conversion for 70B has it. `optimizer`: as for
    Megatron."""
    for t in range(tensor):
        for p in range(pipeline):
            part_of = lambda full: nnm_rank(full, c, t, p, tensor, pipeline, split)
            place = pathlib.Path(folder) / (f"tp_rank_{t:02d}_pp_rank_{p:03d}" if pipeline > 1 else f"mp_rank_{t:02d}")
            place.mkdir(parents=True)
            state = {"state_dict": part_of(tensors), "pytorch-lightning_version": "1.9.5", "epoch": 0, "global_step": 7}
            if optimizer:
                state |= optimizer(place, part_of)
            torch.save(state, place / "llm--step=7-consumed_samples=224.0.ckpt")
