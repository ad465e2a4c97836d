#!/usr/bin/env python3
"""Writes tests/golden/meta: small Llamas as Meta publishes them (consolidated.NN.pth, params.json), made from transformers' by the
description of github.com/meta-llama/llama-models and of transformers' convert_llama_weights_to_hf.py, and the weights that they
were made from (truth.safetensors). Says how far the logits of a forward pass by Meta's formulas, rotating pairs that lie side by
side, are from transformers'. With the program, imports the folders and compares the logits of the results; with a folder, writes there.

    pip install torch transformers safetensors numpy; tools/golden_meta.py [build/drover [FOLDER]]
"""
import json, math, pathlib, subprocess, sys, tempfile

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent / "tests/golden/meta")
DIM, HEADS, LAYERS, VOCAB, EPS = 16, 4, 2, 48, 1e-5
SCALING = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
# folder -> shards, heads of keys, how the table is divided, whether it is the output weight too, frequencies scaled
CASES = {"columns": (2, 2, 1, False, False), "rows": (4, 2, 0, True, True), "one": (1, 4, 0, False, False)}


def side_by_side(w, heads):
    """Rows of q or k with the halves of each rotary pair side by side, as Meta has them."""
    return w.reshape(heads, 2, -1, w.shape[1]).transpose(1, 2).reshape(w.shape)


def metas(state, kv_heads, tied):
    names = {"model.embed_tokens.weight": "tok_embeddings.weight", "model.norm.weight": "norm.weight", "lm_head.weight": "output.weight"}
    parts = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attention.wq",
             "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
             "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2"}
    out = {}
    for name, w in state.items():
        if name in names:
            if not (tied and name == "lm_head.weight"):
                out[names[name]] = w
            continue
        _, _, layer, part = name.split(".", 3)
        if ".q_proj." in name or ".k_proj." in name:
            w = side_by_side(w, HEADS if ".q_proj." in name else kv_heads)
        out[f"layers.{layer}.{parts[part[:-len('.weight')]]}.weight"] = w
    return out


def shard(name, w, rank, shards, kv_heads, table_dim):
    """A rank's part, a tensor of its own."""
    if "norm" in name:
        return w.clone()
    dim = table_dim if name.startswith("tok_emb") else 1 if ".wo." in name or ".w2." in name else 0
    if (".wk." in name or ".wv." in name) and shards > kv_heads:  # a head in several shards
        return w.chunk(kv_heads, 0)[rank * kv_heads // shards].clone()
    return w.chunk(shards, dim)[rank].clone()


def frequencies(scaled):
    f = 1.0 / 10000.0 ** (torch.arange(0, DIM // HEADS, 2).float() / (DIM // HEADS))
    if not scaled:
        return f
    low, high = 8192 / SCALING["low_freq_factor"], 8192 / SCALING["high_freq_factor"]
    out = []
    for x in f:
        length = 2 * math.pi / x
        smooth = (8192 / length - 1.0) / (4.0 - 1.0)
        out.append(x if length < high else x / 4.0 if length > low else (1 - smooth) * x / 4.0 + smooth * x)
    return torch.stack(out)


def forward(w, tokens, kv_heads, scaled):
    """Meta's formulas, with complex numbers for the rotary pairs."""
    norm = lambda x, g: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * g
    n = len(tokens)
    turn = torch.polar(torch.ones(n, DIM // HEADS // 2), torch.outer(torch.arange(n).float(), frequencies(scaled)))
    rotate = lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turn[:, None]).flatten(-2)
    h = w["tok_embeddings.weight"][tokens]
    mask = torch.full((n, n), -math.inf).triu(1)
    for i in range(LAYERS):
        p = lambda part: w[f"layers.{i}.{part}.weight"]
        x = norm(h, p("attention_norm"))
        q = rotate((x @ p("attention.wq").T).view(n, HEADS, -1))
        k = rotate((x @ p("attention.wk").T).view(n, kv_heads, -1)).repeat_interleave(HEADS // kv_heads, 1)
        v = (x @ p("attention.wv").T).view(n, kv_heads, -1).repeat_interleave(HEADS // kv_heads, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(DIM // HEADS) + mask
        h = h + torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(n, DIM) @ p("attention.wo").T
        x = norm(h, p("ffn_norm"))
        h = h + (torch.nn.functional.silu(x @ p("feed_forward.w1").T) * (x @ p("feed_forward.w3").T)) @ p("feed_forward.w2").T
    return norm(h, w["norm.weight"]) @ w.get("output.weight", w["tok_embeddings.weight"]).T


def write(name, drover):
    shards, kv_heads, table_dim, tied, scaled = CASES[name]
    torch.manual_seed(shards)
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=DIM, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                         num_key_value_heads=kv_heads, rms_norm_eps=EPS, tie_word_embeddings=tied, dtype="float32",
                         max_position_embeddings=131072 if scaled else 4096,
                         rope_parameters=dict(SCALING, rope_theta=10000.0) if scaled else dict(rope_type="default", rope_theta=10000.0))
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for w in model.parameters():
            w.copy_((torch.randn(w.shape) * (0.3 if w.dim() == 2 else 1)).bfloat16())
    state = model.state_dict()
    meta = metas(state, kv_heads, tied)
    tokens = torch.randint(0, VOCAB, (40,))
    with torch.no_grad():
        theirs, ours = model(tokens[None]).logits[0], forward(meta, tokens, kv_heads, scaled)
    print(f"{name}: logits by Meta's formulas differ by {(theirs - ours).abs().max():.2g} of {theirs.abs().max():.2g}")
    (OUT / name).mkdir(parents=True, exist_ok=True)
    for rank in range(shards):
        part = {n: shard(n, w.bfloat16(), rank, shards, kv_heads, table_dim) for n, w in meta.items()}
        part["rope.freqs"] = frequencies(scaled).bfloat16()
        torch.save(part, OUT / name / f"consolidated.{rank:02d}.pth")
    params = {"dim": DIM, "n_layers": LAYERS, "n_heads": HEADS, "multiple_of": 16, "norm_eps": EPS, "vocab_size": -1}
    if kv_heads != HEADS:
        params["n_kv_heads"] = kv_heads
    if scaled:
        params |= {"use_scaled_rope": True, "rope_scaling_factor": SCALING["factor"], "rope_theta": 10000.0}
    (OUT / name / "params.json").write_text(json.dumps(params) + "\n")
    save_file({n: w.bfloat16().contiguous() for n, w in state.items() if not (tied and n == "lm_head.weight")}, OUT / name / "truth.safetensors")
    if drover:
        with tempfile.TemporaryDirectory() as work:
            subprocess.run([drover, "ckpt", "import", OUT / name, "--out", f"{work}/out"], check=True, stderr=subprocess.DEVNULL)
            made = LlamaForCausalLM.from_pretrained(f"{work}/out", dtype=torch.float32).eval()
            with torch.no_grad():
                same = torch.equal(made(tokens[None]).logits[0], theirs)
        print(f"{name}: the logits of what drover imported are {'equal to' if same else 'NOT those of'} transformers'")
        return same
    return True


if __name__ == "__main__":
    sys.exit(not all([write(name, sys.argv[1] if len(sys.argv) > 1 else None) for name in CASES]))
