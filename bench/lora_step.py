#!/usr/bin/env python3
"""A LoRA step of the same Llama by transformers + PEFT and by drover, one after the other on the same machine.
Prints one JSON object a mode and the ratio of drover to PEFT's best.

    python bench/lora_step.py build/drover llama-135m 1024 [--modes eager-bf16,...] [--micro 1,2] [--rank 16]

A mode is eager or compile, and what the base is held in: bf16 (branches too), bf16-fp32 (branches in fp32, PEFT's
default), fp32, or fp32-autocast (products in bf16). Needs torch, transformers and peft; preload tcmalloc
(libtcmalloc_minimal.so.4), PyTorch is slower without.
"""
import argparse, json, os, resource, subprocess, sys, time

from pytorch_step import SHAPES

MODES = "eager-bf16,eager-bf16-fp32,eager-fp32,eager-fp32-autocast,compile-bf16,compile-fp32-autocast"


def one(model_name, seq, mode, micro, a):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    compiled, kind = mode.split("-", 1)
    dtype = torch.float32 if kind.startswith("fp32") else torch.bfloat16
    config = LlamaConfig(tie_word_embeddings=True, attn_implementation="sdpa", use_cache=False, **SHAPES[model_name])
    model = LlamaForCausalLM(config).to(dtype)
    lora = LoraConfig(task_type="CAUSAL_LM", r=a.rank, lora_alpha=a.rank, lora_dropout=a.dropout,
        target_modules=["q_proj", "v_proj"])
    model = get_peft_model(model, lora, autocast_adapter_dtype=kind == "bf16-fp32").train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = torch.compile(model) if compiled == "compile" else model
    data = torch.randint(0, config.vocab_size, (a.batch, seq))

    def step(n):
        for i in range(0, n, micro):
            x = data[i:i + micro]
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == "fp32-autocast"):
                loss = run(input_ids=x, labels=x).loss * (micro / n)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    step(micro)  # compiles, touches all memory
    best = 1e9
    for _ in range(2):
        t = time.perf_counter()
        step(a.batch)
        best = min(best, time.perf_counter() - t)
    print(json.dumps(dict(system=f"PEFT on PyTorch {torch.__version__}", mode=mode, micro_batch=micro,
        trained=sum(p.numel() for p in trained), tokens_per_s=round(a.batch * seq / best, 1),
        peak_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)), flush=True)


def ours(a, precision):
    sets = [f"model.preset={a.model}", f"data.sequence_length={a.seq}", f"training.global_batch_size={a.batch}",
            f"training.threads={a.threads}", f"training.precision={precision}", f"lora.rank={a.rank}",
            f"lora.dropout={a.dropout}"]
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    command = [a.drover, "bench", "step", "--json"] + [w for s in sets for w in ("--set", s)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("drover")
    p.add_argument("model")
    p.add_argument("seq", type=int)
    p.add_argument("--modes", default=MODES)
    p.add_argument("--micro", default="1")
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--only", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.only:
        mode, micro = a.only.split(":")
        return one(a.model, a.seq, mode, int(micro), a)
    best = dict(tokens_per_s=0, peak_rss=1)
    for micro in a.micro.split(","):
        for mode in a.modes.split(","):
            r = subprocess.run([sys.executable, *sys.argv, "--only", f"{mode}:{micro}"], capture_output=True, text=True)
            if r.returncode != 0:
                print(f"{mode} micro-batch {micro}: failed: {r.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                continue
            got = json.loads(r.stdout.strip().splitlines()[-1])
            print(json.dumps(got), flush=True)
            if got["tokens_per_s"] > best["tokens_per_s"]:
                best = got
    for precision in ("bf16", "fp32"):
        got = ours(a, precision)
        print(json.dumps(dict(system="drover", **got)))
        print(f"drover {precision} / PEFT {best.get('mode')}: {got['tokens_per_s'] / best['tokens_per_s']:.2f} x tokens/s, "
              f"{got['peak_rss'] / best['peak_rss']:.2f} x memory", flush=True)


if __name__ == "__main__":
    main()
