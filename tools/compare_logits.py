#!/usr/bin/env python3
"""Compares the logits of `drover eval --logits` with those of transformers, position by position, on the same weights: by default
SmolLM2-135M-Instruct, dequantised by `drover ckpt import`, on 500 tokens of a text. Fails where a logit differs by more than
1e-3 (fp32) or another token is the likeliest.

    pip install torch transformers safetensors
    tools/compare_logits.py build/drover TEXT [MODEL [N]]

MODEL is a Hugging Face folder or a GGUF file; without it, the file that tools/fetch_smollm2.sh fetches ($DROVER_SMOLLM2 names
it), and where that is absent nothing is compared.
"""
import os, pathlib, subprocess, sys, tempfile

import torch, transformers
from safetensors.torch import load_file


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")


def main():
    drover, text = sys.argv[1:3]
    default = os.environ.get("DROVER_SMOLLM2") or pathlib.Path.home() / ".cache/drover/SmolLM2-135M-Instruct.Q4_1.gguf"
    model = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else default)
    n = int(sys.argv[4]) if len(sys.argv) > 4 else 500
    if not model.exists():
        print(f"skipped: no {model} (tools/fetch_smollm2.sh fetches it)")
        return 0
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        if model.is_file():
            run(drover, "ckpt", "import", model, "--out", tmp / "model", "--dtype", "f32")
            model = tmp / "model"
        run(drover, "eval", model, "--text", text, "--context", n, "--precision", "fp32", "--logits", tmp / "logits")
        ours = load_file(tmp / "logits")
        peer = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        with torch.no_grad():
            theirs = peer(ours["token_ids"].long()[None]).logits[0]
    difference = (ours["logits"] - theirs).abs().max().item()
    same = (ours["logits"].argmax(1) == theirs.argmax(1)).sum().item()
    print(f"{len(theirs)} positions of {theirs.shape[1]} logits (largest {theirs.abs().max():.1f}): the largest difference is "
          f"{difference:.2e}, the likeliest token is the same in {same}")
    return difference > 1e-3 or same < len(theirs)


sys.exit(main())
