#!/usr/bin/env python3
"""Loads a checkpoint of a LoRA run with PEFT, and compares its loss on a data set with drover's.

    python tools/compare_peft.py build/drover RUN_DIR/checkpoints/step-000100 DATA_PREFIX

Both compute in fp32 on rows of the model's context. Exit status 1: the losses differ by more than 1e-4.
Needs torch, transformers and peft.
"""
import argparse, json, pathlib, struct, subprocess, sys
import numpy, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


def tokens_of(prefix):
    """Documents of a Megatron .bin/.idx, as drover writes them: magic (9 bytes), version (8), type, counts, lengths."""
    idx = pathlib.Path(prefix + ".idx").read_bytes()
    dtype = {1: numpy.uint8, 4: numpy.int32, 8: numpy.uint16}[idx[17]]
    n, _ = struct.unpack_from("<QQ", idx, 18)
    lengths = numpy.frombuffer(idx, numpy.int32, n, 34)
    data = numpy.fromfile(prefix + ".bin", dtype)
    return numpy.split(data.astype(numpy.int64), numpy.cumsum(lengths)[:-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("drover")
    p.add_argument("adapter")
    p.add_argument("data")
    a = p.parse_args()
    base = json.loads(pathlib.Path(a.adapter, "adapter_config.json").read_text())["base_model_name_or_path"]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    model = PeftModel.from_pretrained(model, a.adapter).eval()
    loss = count = 0
    with torch.no_grad():
        for document in tokens_of(a.data):
            x = torch.tensor(document)[None]
            if x.shape[1] < 2:
                continue
            logits = model(input_ids=x).logits[0, :-1]
            loss += torch.nn.functional.cross_entropy(logits, x[0, 1:], reduction="sum").item()
            count += x.shape[1] - 1
    out = subprocess.run([a.drover, "eval", a.adapter, "--data", a.data, "--json", "--set", "training.precision=fp32"],
                         capture_output=True, text=True, check=True).stdout
    ours = json.loads(out)
    print(f"PEFT: loss {loss / count:.6f} of {count} tokens; drover: {ours['loss']:.6f} of {ours['tokens']}")
    return abs(loss / count - ours["loss"]) > 1e-4


if __name__ == "__main__":
    sys.exit(main())
