#!/usr/bin/env python3
"""Trains the same adapter with drover and with PEFT for some steps on whole examples of a set that --sft built, and compares
losses and weights: packing, masks, the mean over answers, accumulation, clipping and AdamW together.

    python tools/compare_peft_steps.py build/drover BASE SFT_PREFIX [ROW_TOKENS]

Every step goes over all examples, so their order does not count. In fp32, without dropout, in micro-batches of one row and
of all. Exit status 1: a loss differs by more than 1e-5 or a weight by more than 1e-4 (AdamW divides by the root of
gradients that may be next to 0). Needs torch, transformers and peft.
"""
import json, pathlib, re, subprocess, sys, tempfile
import numpy, torch
from compare_peft import tokens_of
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

STEPS, LR = 4, 1e-2
CASES = [dict(target_modules=["q_proj", "v_proj"], weight_decay=0, clip=0),
         dict(target_modules="all-linear", use_rslora=True, weight_decay=0.1, clip=0.05)]


def examples_of(prefix, row_tokens):
    """Tokens and whether each is an answer, cut at the end of a row; of those with something to learn."""
    roles, at = numpy.fromfile(prefix + ".roles", numpy.uint8) > 0, 0
    for ids in tokens_of(prefix):
        counts = roles[at:at + len(ids)][:row_tokens + 1]
        at += len(ids)
        if counts[1:].any():
            yield ids[:row_tokens + 1], counts


def train_peft(base, case, examples, folder):
    lora = {k: v for k, v in case.items() if k not in ("weight_decay", "clip")}
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
                           LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM", **lora))
    torch.manual_seed(5)
    for name, w in model.named_parameters():
        if "lora_B" in name:
            w.data = torch.randn_like(w) * 0.05
    model.save_pretrained(folder)
    trained = [w for w in model.parameters() if w.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=case["weight_decay"])
    n = sum(int(counts[1:].sum()) for _, counts in examples)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses.append(0.0)
        for ids, counts in examples:
            labels = torch.tensor(numpy.where(counts[1:], ids[1:], -100))
            logits = model(torch.tensor(ids[:-1])[None]).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / n
            loss.backward()
            losses[-1] += loss.item()
        if case["clip"]:
            torch.nn.utils.clip_grad_norm_(trained, case["clip"])
        optimizer.step()
    return losses, get_peft_model_state_dict(model)


def train_drover(drover, base, prefix, row_tokens, case, adapter, rows, micro, run):
    config = {"model": {"from": base}, "data": {"train": prefix, "sequence_length": row_tokens},
              "training": {"steps": STEPS, "global_batch_size": rows, "micro_batch_size": micro, "precision": "fp32",
                           "eval_every": 0},
              "lora": {"adapter": adapter},
              "optimizer": {"lr": LR, "betas": [0.9, 0.95], "weight_decay": case["weight_decay"],
                            "clip_grad_norm": case["clip"]},
              "schedule": {"type": "constant", "warmup_steps": 0}, "run_dir": run}
    done = subprocess.run([drover, "train", "/dev/stdin"], input=json.dumps(config), text=True, capture_output=True)
    if done.returncode:
        sys.exit(done.stderr)
    lines = map(json.loads, pathlib.Path(run, "metrics.jsonl").read_text().splitlines())
    losses = [o["loss"] for o in lines if "loss" in o]
    weights = load_file(pathlib.Path(run, f"checkpoints/step-{STEPS:06d}/adapter_model.safetensors"))
    return losses, weights, int(re.search(r"examples in (\d+) rows", done.stderr)[1])


def main():
    drover, base, prefix = sys.argv[1:4]
    row_tokens = int(sys.argv[4]) if len(sys.argv) > 4 else 96
    examples, good = list(examples_of(prefix, row_tokens)), True
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            adapter = folder + "/adapter"
            losses, weights = train_peft(base, case, examples, adapter)
            one = [drover, base, prefix, row_tokens, case, adapter]
            rows = train_drover(*one, 1, 1, folder + "/rows")[2]
            for micro in (1, rows):
                got, made, _ = train_drover(*one, rows, micro, f"{folder}/{micro}")
                loss = max(abs(a - b) for a, b in zip(got, losses, strict=True))
                weight = max((made[k] - w).abs().max().item() for k, w in weights.items())
                good &= loss < 1e-5 and weight < 1e-4 and made.keys() == weights.keys()
                print(f"{case['target_modules']}, {len(examples)} examples in {rows} rows, {micro} at once: losses "
                      f"{losses[0]:.4f} to {losses[-1]:.4f} differ by {loss:.2g}, weights by {weight:.2g}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
