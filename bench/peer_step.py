"""What the comparisons of a training step share (pytorch_step.py, lora_step.py): the models, the timing of a PyTorch step, a
process per mode, and drover's step beside the best of them."""
import argparse, json, os, resource, subprocess, sys, time

SHAPES = {
    "llama-135m": dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192, rope_theta=1e5),
    "llama-15m": dict(vocab_size=32000, hidden_size=288, intermediate_size=768, num_hidden_layers=6,
        num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=1024, rope_theta=1e4),
}


def parser(modes, batch):
    p = argparse.ArgumentParser()
    p.add_argument("drover")
    p.add_argument("model", choices=SHAPES)
    p.add_argument("seq", type=int)
    p.add_argument("--modes", default=modes)
    p.add_argument("--micro", default="1")
    p.add_argument("--batch", type=int, default=batch)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--only", help=argparse.SUPPRESS)
    return p


def llama(args):
    """transformers' model of the shape, with random weights; the same ones in every process."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, attn_implementation="sdpa", use_cache=False,
        **SHAPES[args.model]))


def time_step(model, trained, lr, compiled, autocast, micro, args):
    """Tokens per second of the faster of two steps on random tokens: micro-batches, clipping, fused AdamW."""
    import torch
    optimizer = torch.optim.AdamW(trained, lr=lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = torch.compile(model) if compiled else model
    data = torch.randint(0, SHAPES[args.model]["vocab_size"], (args.batch, args.seq))

    def step(n_rows):
        for i in range(0, n_rows, micro):
            rows = data[i:i + micro]
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = run(input_ids=rows, labels=rows).loss * (micro / n_rows)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    step(micro)  # compiles, touches all memory
    best = 1e9
    for _ in range(2):
        begin = time.perf_counter()
        step(args.batch)
        best = min(best, time.perf_counter() - begin)
    return round(args.batch * args.seq / best, 1)


def drover_step(args, sets):
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    sets = [f"model.preset={args.model}", f"data.sequence_length={args.seq}", f"training.global_batch_size={args.batch}",
            f"training.threads={args.threads}", *sets]
    command = [args.drover, "bench", "step", "--json"] + [word for s in sets for word in ("--set", s)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout)


def compare(args, peer, one, sets=()):
    """Each mode in a process of its own, which runs one(mode, micro) and prints what it returns; then drover. `peer` is the
    name of the other side."""
    if args.only:
        mode, micro = args.only.split(":")
        print(json.dumps(dict(one(mode, int(micro)), mode=mode, micro_batch=int(micro),
            peak_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)), flush=True)
        return
    best = dict(tokens_per_s=0, peak_rss=1)
    for micro in args.micro.split(","):
        for mode in args.modes.split(","):
            r = subprocess.run([sys.executable, *sys.argv, "--only", f"{mode}:{micro}"], capture_output=True, text=True)
            if r.returncode != 0:
                print(f"{mode} micro-batch {micro}: failed: {r.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                continue
            got = json.loads(r.stdout.strip().splitlines()[-1])
            print(json.dumps(got), flush=True)
            if got["tokens_per_s"] > best["tokens_per_s"]:
                best = got
    for precision in ("bf16", "fp32"):
        ours = drover_step(args, [f"training.precision={precision}", *sets])
        print(json.dumps(dict(system="drover", **ours)))
        if best["tokens_per_s"]:
            print(f"drover {precision} / {peer} {best['mode']}: {ours['tokens_per_s'] / best['tokens_per_s']:.2f} x tokens/s, "
                  f"{ours['peak_rss'] / best['peak_rss']:.2f} x memory", flush=True)
