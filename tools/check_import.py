#!/usr/bin/env python3
"""Imports a GGUF file by `drover ckpt import` and compares the result with gguf-py and transformers: every weight has the
bits of gguf-py's dequantisation (with the rows of q and k reordered), and the loss of `drover eval` on pieces of texts
equals that of transformers on the same weights.

    pip install gguf==0.19.0 torch transformers
    tools/check_import.py build/drover MODEL.gguf TEXT...
"""
import json, math, pathlib, subprocess, sys, tempfile

import gguf, numpy as np, torch, transformers
from safetensors.numpy import load_file

NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
OTHERS = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
          "output.weight": "lm_head.weight"}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def check_weights(path, folder):
    weights = load_file(folder / "model.safetensors")
    reader = gguf.GGUFReader(path)
    heads = {key: int(reader.fields[f"llama.attention.head_count{key}"].contents()) for key in ("", "_kv")}
    for t in reader.tensors:
        if t.name == "rope_freqs.weight":
            continue
        w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        name = OTHERS.get(t.name)
        if not name:
            _, layer, part, _ = t.name.split(".")
            name = f"model.layers.{layer}.{NAMES[part]}.weight"
            if part in ("attn_q", "attn_k"):
                n = heads["" if part == "attn_q" else "_kv"]
                w = w.reshape(n, w.shape[0] // n // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)
        if weights.pop(name).tobytes() != w.tobytes():
            sys.exit(f"{name} differs")
    if weights:
        sys.exit(f"left over: {list(weights)}")
    print(f"weights: {len(reader.tensors)} tensors in the bits of gguf-py")


def check_loss(drover, folder, texts, tmp):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    pieces = [t[i:i + 3000] for t in texts for i in range(0, min(len(t), 6000), 3000)]
    (tmp / "pieces.jsonl").write_text("".join(json.dumps({"text": p}) + "\n" for p in pieces))
    run(drover, "data", "build", "--input", tmp / "pieces.jsonl", "--tokenizer", folder, "--out", tmp / "set")
    ours = json.loads(run(drover, "eval", folder, "--data", tmp / "set", "--set", "data.sequence_length=4096", "--set",
                          "training.precision=fp32", "--json"))
    total = count = 0
    with torch.no_grad():
        for p in pieces:
            ids = torch.tensor([tokenizer(p).input_ids])
            n = ids.shape[1] - 1
            total += model(ids, labels=ids).loss.item() * n
            count += n
    ratio = math.exp(ours["loss"] - total / count)
    print(f"perplexity: {ours['perplexity']:.4f} of {ours['tokens']} tokens, transformers {math.exp(total / count):.4f} of "
          f"{count}, ratio {ratio:.6f}")
    return abs(ratio - 1) > 1e-3


def main():
    drover, path, texts = sys.argv[1], sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        run(drover, "ckpt", "import", path, "--out", tmp / "model")
        check_weights(path, tmp / "model")
        return check_loss(drover, tmp / "model", [pathlib.Path(t).read_text(errors="replace") for t in texts], tmp)


sys.exit(main())
