#!/usr/bin/env python3
"""PyTorch's side of time_to_loss.sh: transformers' Llama of the same shape, on the same tokens, for so many seconds after
the first step; the learning rate follows the same warm-up and cosine, by the share of the time that is over. Prints steps
and seconds a step; writes a Hugging Face folder."""
import argparse, math, pathlib, shutil, time
import numpy, torch
from transformers import LlamaConfig, LlamaForCausalLM

p = argparse.ArgumentParser()
for name in ("data", "config", "tokenizer", "optimizer", "out", "mode"):
    p.add_argument("--" + name, required=True)
for name in ("lr", "seconds"):
    p.add_argument("--" + name, type=float, required=True)
for name in ("seed", "rows", "row"):
    p.add_argument("--" + name, type=int, required=True)
args = p.parse_args()

torch.manual_seed(args.seed)
model = LlamaForCausalLM(LlamaConfig.from_json_file(args.config))
model.config.use_cache = False
tokens = numpy.memmap(args.data, dtype=numpy.uint16, mode="r")
n_rows = len(tokens) // args.row
matrices = [w for n, w in model.named_parameters() if w.dim() == 2 and ".layers." in n]
tables = [w for n, w in model.named_parameters() if w.dim() == 2 and ".layers." not in n]
norms = [w for w in model.parameters() if w.dim() == 1]
by_adamw = tables if args.optimizer == "muon" else tables + matrices
optimizers = [torch.optim.AdamW([dict(params=by_adamw), dict(params=norms, weight_decay=0.0)], lr=args.lr, betas=(0.9, 0.95),
                                weight_decay=0.1, fused=True)]
if args.optimizer == "muon":
    optimizers.append(torch.optim.Muon(matrices, lr=args.lr, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"))
run = torch.compile(model) if args.mode.startswith("compile") else model
order = numpy.random.default_rng(args.seed)


def batches():
    while True:
        for first in order.permutation(n_rows - n_rows % args.rows).reshape(-1, args.rows):
            yield torch.from_numpy(numpy.stack([tokens[i * args.row:(i + 1) * args.row] for i in first]).astype(numpy.int64))


def step(batch, share):
    rate = min(share / 0.1, 0.5 + 0.5 * math.cos(math.pi * max(0.0, share - 0.1) / 0.9))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = args.lr * rate
    for rows in batch.split(8):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.mode.endswith("bf16")):
            loss = run(input_ids=rows, labels=rows).loss * (len(rows) / args.rows)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


source, steps = batches(), 1
step(next(source), 0.0)  # compiles, touches all memory; its rate is 0
begin = time.perf_counter()
while (elapsed := time.perf_counter() - begin) < args.seconds:
    step(next(source), elapsed / args.seconds)
    steps += 1
model.save_pretrained(args.out)
for f in pathlib.Path(args.tokenizer).iterdir():
    shutil.copy(f, args.out)
print(steps, f"{(time.perf_counter() - begin) / (steps - 1):.4f}")
