#!/usr/bin/env python3
"""A small random Llama as a Hugging Face folder, and its tensors under the names and in the layouts of other trainers. What is
here follows the public sources: torchtitan/models/llama3/state_dict_adapter.py, megatron/core/models/gpt and
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
