#!/usr/bin/env python3
"""Writes a Hugging Face folder of a Llama of random bf16 weights, without any library, and DIR.adapter, a LoRA adapter
of it (r 8, q_proj and v_proj): for measuring the memory that conversions need.

    python3 tools/make_large_model.py DIR [LAYERS] [HIDDEN] [VOCAB]
"""
import json, os, pathlib, random, struct, sys

out = pathlib.Path(sys.argv[1])
layers, hidden, vocab = (int(sys.argv[i]) if len(sys.argv) > i else d for i, d in ((2, 16), (3, 1024), (4, 32000)))
ffn, heads = 4 * hidden, hidden // 64
out.mkdir(parents=True, exist_ok=True)
(out / "config.json").write_text(json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": hidden,
    "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16"}))
shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden], "lm_head.weight": [vocab, hidden]}
for i in range(layers):
    p = f"model.layers.{i}."
    for name in ("q", "k", "v", "o"):
        shapes[p + f"self_attn.{name}_proj.weight"] = [hidden, hidden]
    for name in ("gate", "up"):
        shapes[p + f"mlp.{name}_proj.weight"] = [ffn, hidden]
    shapes[p + "mlp.down_proj.weight"] = [hidden, ffn]
    for name in ("input", "post_attention"):
        shapes[p + f"{name}_layernorm.weight"] = [hidden]
adapter = {}
for i in range(layers):
    for name in ("q", "v"):
        p = f"base_model.model.model.layers.{i}.self_attn.{name}_proj.lora_"
        adapter |= {p + "A.weight": [8, hidden], p + "B.weight": [hidden, 8]}
random.seed(1)
# Values of about 0.02 with random signs and fractions: a block is repeated, for time's sake.
def bf16(x):
    return struct.pack("<f", x)[2:]
block = b"".join(bf16(random.gauss(0, 0.02)) for _ in range(1 << 16))


def size(shape):
    return 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)


def write(path, shapes):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size(shape)]}
        at += size(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            left = size(shape)
            if len(shape) == 1:
                f.write(bf16(1.0) * shape[0])
                left = 0
            while left:
                first = 2 * random.randrange(1 << 15)
                piece = block[first:first + left]
                f.write(piece)
                left -= len(piece)


write(out / "model.safetensors", shapes)
folder = pathlib.Path(f"{out}.adapter")
folder.mkdir(exist_ok=True)
(folder / "adapter_config.json").write_text(json.dumps(
    {"peft_type": "LORA", "r": 8, "lora_alpha": 64, "target_modules": ["q_proj", "v_proj"]}))
write(folder / "adapter_model.safetensors", adapter)
print(sum(map(size, shapes.values())) >> 20, "MiB,", "largest tensor", max(map(size, shapes.values())) >> 20, "MiB")
