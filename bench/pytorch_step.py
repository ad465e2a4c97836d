#!/usr/bin/env python3
"""A training step of the same Llama in PyTorch (transformers' model, SDPA attention, fused AdamW) and
in drover, one after the other on the same machine. Prints one JSON object a mode and the ratio of
drover to PyTorch's best.

    python bench/pytorch_step.py build/drover llama-135m 1024 [--modes eager-fp32,compile-bf16,...] [--micro 1,4]

Needs torch and transformers; preload tcmalloc (libtcmalloc_minimal.so.4), PyTorch is slower without.
"""
import argparse, json, os, resource, subprocess, sys, time

SHAPES = {
    "llama-135m": dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192, rope_theta=1e5),
    "llama-15m": dict(vocab_size=32000, hidden_size=288, intermediate_size=768, num_hidden_layers=6,
        num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=1024, rope_theta=1e4),
}


def one(model_name, seq, mode, micro, batch, threads):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    compiled, dtype = mode.split("-")
    config = LlamaConfig(tie_word_embeddings=True, attn_implementation="sdpa", use_cache=False, **SHAPES[model_name])
    model = LlamaForCausalLM(config).float().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = torch.compile(model) if compiled == "compile" else model
    data = torch.randint(0, config.vocab_size, (batch, seq))

    def step(n):
        for i in range(0, n, micro):
            x = data[i:i + micro]
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
                loss = run(input_ids=x, labels=x).loss * (micro / n)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    step(micro)  # compiles, touches all memory
    best = 1e9
    for _ in range(2):
        t = time.perf_counter()
        step(batch)
        best = min(best, time.perf_counter() - t)
    print(json.dumps(dict(system=f"PyTorch {torch.__version__}", mode=mode, micro_batch=micro, tokens_per_s=round(batch * seq / best, 1),
                          peak_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("drover")
    p.add_argument("model")
    p.add_argument("seq", type=int)
    p.add_argument("--modes", default="eager-fp32,compile-fp32,eager-bf16,compile-bf16")
    p.add_argument("--micro", default="1")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--only", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.only:
        mode, micro = a.only.split(":")
        return one(a.model, a.seq, mode, int(micro), a.batch, a.threads)
    best = dict(tokens_per_s=0, peak_rss=1)
    for micro in a.micro.split(","):
        for mode in a.modes.split(","):
            r = subprocess.run([sys.executable, *sys.argv, "--only", f"{mode}:{micro}"], capture_output=True, text=True)
            if r.returncode != 0:
                print(f"{mode} micro-batch {micro}: failed: {r.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                continue
            print(r.stdout.strip(), flush=True)
            got = json.loads(r.stdout.strip().splitlines()[-1])
            if got["tokens_per_s"] > best["tokens_per_s"]:
                best = got
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    for precision in ("bf16", "fp32"):
        r = subprocess.run([a.drover, "bench", "step", "--json", "--set", f"model.preset={a.model}", "--set", f"data.sequence_length={a.seq}",
            "--set", f"training.global_batch_size={a.batch}", "--set", f"training.threads={a.threads}", "--set", f"training.precision={precision}"],
            capture_output=True, text=True, env=env)
        ours = json.loads(r.stdout)
        print(json.dumps(dict(system="drover", **ours)))
        print(f"drover {precision} / PyTorch {best.get('mode')}: {ours['tokens_per_s'] / best['tokens_per_s']:.2f} x tokens/s, "
              f"{ours['peak_rss'] / best['peak_rss']:.2f} x memory", flush=True)


if __name__ == "__main__":
    main()
