#!/usr/bin/env python3
"""Loads models that drover has exported and merged with transformers and PEFT, and compares logits. Needs torch, transformers, peft.

    python tools/check_exports.py build/drover BASE [ADAPTER]

BASE is a Hugging Face folder of a Llama, ADAPTER a PEFT folder. Each export has to load without a missing or unexpected
weight, and its logits have to equal those of BASE (a merge: those of BASE with ADAPTER) within the rounding of its type.
"""
import json, pathlib, subprocess, sys, tempfile
import torch, transformers
from transformers import AutoModelForCausalLM

drover, base, adapter = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
ROUNDING = {"f32": 2e-6, "bf16": 0.06, "f16": 0.008}
TORCH = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def logits(model, tokens):
    with torch.no_grad():
        return model.float().eval()(input_ids=tokens).logits


def check(what, folder, dtype, expected, tokens):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", output_loading_info=True)
    lost = [k for k in ("missing_keys", "unexpected_keys", "mismatched_keys") if info.get(k)]
    got = next(model.parameters()).dtype
    spread = expected.std(-1).mean()
    error = ((logits(model, tokens) - expected).pow(2).mean().sqrt() / spread).item()
    good = not lost and got == TORCH[dtype] and error < ROUNDING[dtype]
    print(f"{what:28} {dtype:5} {str(got):15} relative difference {error:.2g} {'ok' if good else 'WRONG ' + str(lost)}")
    return good


original = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
torch.manual_seed(0)
tokens = torch.randint(0, original.config.vocab_size, (4, 32))
expected, good = logits(original, tokens), True
if adapter:
    import peft
    expected_merged = logits(peft.PeftModel.from_pretrained(original, adapter), tokens)
with tempfile.TemporaryDirectory() as tmp:
    for dtype in TORCH:
        for shard in ("5GB", "200KB"):
            out = f"{tmp}/{dtype}-{shard}"
            subprocess.run([drover, "ckpt", "export", base, "--out", out, "--dtype", dtype, "--max-shard-size", shard],
                           check=True, capture_output=True)
            good &= check(f"export in shards of {shard}", out, dtype, expected, tokens)
        if adapter:
            out = f"{tmp}/merged-{dtype}"
            subprocess.run([drover, "ckpt", "merge", base, adapter, "--out", out, "--dtype", dtype], check=True,
                           capture_output=True)
            good &= check("merged", out, dtype, expected_merged, tokens)
print("transformers", transformers.__version__, "torch", torch.__version__)
sys.exit(not good)
