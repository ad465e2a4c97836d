#!/usr/bin/env python3
"""Makes tests/golden/generation.safetensors: the logits after prompts of several lengths, by transformers in
double, for the models in tests/golden. Token i of every prompt is (7919 i + 13) mod 96. Needs torch, transformers,
safetensors; the tests need none of them.

    python tools/golden_generation.py tests/golden
"""
import pathlib, sys
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

LENGTHS = [1, 2, 16, 17, 63, 64, 65, 66, 80, 100, 127, 128, 129, 256, 257, 300, 512]

golden, out = pathlib.Path(sys.argv[1]), {}
for name in ["tied", "untied_llama3", "mistral", "qwen2_window", "qwen2", "qwen3"]:
    model = AutoModelForCausalLM.from_pretrained(golden / name, attn_implementation="eager").double().eval()
    ids = torch.tensor([[(7919 * i + 13) % 96 for i in range(max(LENGTHS))]])
    for n in LENGTHS:
        with torch.no_grad():
            out[f"{name}.{n}"] = model(input_ids=ids[:, :n]).logits[0, -1].float()
save_file(out, golden / "generation.safetensors")
