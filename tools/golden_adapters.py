#!/usr/bin/env python3
"""Makes tests/golden/adapters/: LoRA adapters as PEFT saves them, on the tiny Llamas of tests/golden, with the
logits that PEFT gives (in double) and those of its merge_and_unload (in float). Needs torch, transformers, peft;
the tests need none of them.

    python tools/golden_adapters.py tests/golden [CASE ...]
"""
import pathlib, shutil, sys
import peft, torch
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

CASES = {
    # what most people train
    "plain": ("tied", dict(r=4, lora_alpha=8, lora_dropout=0.05, target_modules=["q_proj", "v_proj"])),
    # every linear layer, one with another rank, some with another alpha, scale alpha / sqrt(r)
    "patterns": ("untied_llama3", dict(r=8, lora_alpha=4, use_rslora=True,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"],
        rank_pattern={"layers.1.self_attn.k_proj": 2}, alpha_pattern={"down_proj": 3, "o_proj": 1})),
    # one layer of two, by layers_to_transform; tensors in bf16
    "one_layer": ("tied", dict(r=2, lora_alpha=2, target_modules=["o_proj"], layers_to_transform=[1])),
    # the output weight of a base that ties it: PEFT adds the branch to the output alone
    "head": ("tied", dict(r=2, lora_alpha=4, target_modules=["lm_head"])),
    # keys of patterns, targets and what is excluded are regular expressions, of which the first that fits counts
    "expressions": ("tied", dict(r=4, lora_alpha=6, target_modules=r".*\.(self_attn|mlp)\.\w+_proj",
        exclude_modules=r"model\.layers\.0\.mlp\..*",
        rank_pattern={r"layers\.1\.self_attn\.[qk]_proj": 2, "^model.layers.0.self_attn.(q|v)_proj": 3, "q_proj": 1},
        alpha_pattern={r".*down.*": 3, r"[^.]*_proj": 5})),
}
ROWS, SEQ = 1, 24


def make(name, base, options, out):
    torch.manual_seed(3)
    folder = out / "adapters" / name
    shutil.rmtree(folder, ignore_errors=True)
    model = LlamaForCausalLM.from_pretrained(out / base, dtype=torch.float32, attn_implementation="eager")
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **options)).eval()
    with torch.no_grad():
        for n, p in model.named_parameters():
            if "lora_" in n:
                p.copy_(0.2 * torch.randn_like(p))
                if name == "one_layer":
                    p.copy_(p.bfloat16().float())
    model.peft_config["default"].base_model_name_or_path = f"tests/golden/{base}"
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    weights = folder / "adapter_model.safetensors"
    if name == "one_layer":
        save_file({k: v.bfloat16() for k, v in load_file(weights).items()}, weights, metadata={"format": "pt"})
    tokens = torch.randint(0, 96, (ROWS, SEQ))
    with torch.no_grad():
        logits = model.double()(input_ids=tokens).logits
        merged = model.float().merge_and_unload()
        merged_logits = merged.double()(input_ids=tokens).logits
    save_file({"tokens": tokens.float(), "logits": logits.contiguous(), "merged_logits": merged_logits.contiguous()},
              folder / "golden.safetensors")


if __name__ == "__main__":
    for name in sys.argv[2:] or CASES:
        make(name, *CASES[name], pathlib.Path(sys.argv[1]))
    print("transformers, peft, torch:", __import__("transformers").__version__, peft.__version__, torch.__version__)
