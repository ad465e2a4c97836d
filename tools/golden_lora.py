#!/usr/bin/env python3
"""Adds to tests/golden/adapters/ (made by golden_adapters.py) what training reads: loss and gradients that PEFT
gives in double, without dropout. Needs torch, transformers, peft; the tests need none of them.

    python tools/golden_lora.py tests/golden
"""
import json, pathlib, sys
import torch
from peft import PeftModel
from safetensors.torch import save_file
from transformers import LlamaForCausalLM

ROWS, SEQ = 4, 48


def make(folder, golden):
    torch.manual_seed(5)
    base = golden / pathlib.Path(json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"]).name
    model = LlamaForCausalLM.from_pretrained(base, dtype=torch.float64, attn_implementation="eager")
    model = PeftModel.from_pretrained(model, folder, is_trainable=True, autocast_adapter_dtype=False).double().eval()
    tokens = torch.randint(0, model.config.vocab_size, (ROWS, SEQ))
    logits = model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
    loss.backward()
    out = {"tokens": tokens.float(), "loss": loss.detach().reshape(1)}
    for n, p in model.named_parameters():
        if p.grad is not None:
            out["grad." + n.replace(".default", "")] = p.grad
    save_file({k: v.contiguous() for k, v in out.items()}, str(folder / "gradients.safetensors"))
    print(folder.name, "loss", float(loss), len(out) - 2, "gradients")


if __name__ == "__main__":
    golden = pathlib.Path(sys.argv[1])
    for folder in sorted((golden / "adapters").iterdir()):
        if (folder / "golden.safetensors").exists():
            make(folder, golden)
