#!/usr/bin/env python3
"""A training step of a Llama in PyTorch on one GPU, as its users write it: transformers' model in bf16, SDPA attention,
torch.compile, fused AdamW; or, of a GEMM, the best rate of the card. One JSON line.

    gpu_peer.py step --model 1b|8b|tiny --rows 1 --seq 8192 [--lora 16] [--recompute] [--chunked-loss] [--no-compile] [--steps 6]
    gpu_peer.py gemm [--size 8192,16384]

FLOPs are those that drover counts: 6 a trained weight and token, 4 where it is frozen, the causal half of attention. Runs on
the CPU too (--model tiny), for trying it. Needs torch, transformers, with --lora peft."""
import argparse, json, os, time

SHAPES = {  # hidden, layers, heads, kv heads, ffn, vocabulary, tied
    "1b": (2048, 16, 32, 8, 8192, 128256, True), "8b": (4096, 32, 32, 8, 14336, 128256, False), "tiny": (64, 2, 4, 2, 128, 512, False)}


def median(values):
    return sorted(values)[len(values) // 2]


def gemm(args, torch, device):
    best = {}
    for size in map(int, args.size.split(",")):
        a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in "ab")
        times = []
        for _ in range(args.steps + 2):
            begin = time.perf_counter()
            for _ in range(4):
                a @ b
            if device == "cuda":
                torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) / 4)
        best[size] = 2 * size ** 3 / min(times[1:])
    return dict(what="GEMM bf16", tflops={s: round(r / 1e12, 2) for s, r in best.items()}, best_flops_per_s=max(best.values()))


def make_model(args, torch, device):
    from transformers import LlamaConfig, LlamaForCausalLM
    hidden, layers, heads, kv, ffn, vocab, tied = SHAPES[args.model]
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = LlamaForCausalLM(LlamaConfig(vocab_size=vocab, hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=kv, max_position_embeddings=args.seq, tie_word_embeddings=tied,
            use_cache=False, attn_implementation="sdpa"))
    torch.set_default_dtype(torch.float32)
    if args.lora:
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=args.lora, lora_alpha=2 * args.lora, target_modules="all-linear"))
        model.enable_input_require_grads()
    if args.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def flops(args):
    hidden, layers, heads, kv, ffn, vocab, _ = SHAPES[args.model]
    head = hidden // heads
    weights = layers * (2 * hidden * hidden + 2 * hidden * kv * head + 3 * hidden * ffn) + vocab * hidden
    attention = 6 * layers * args.seq * heads * head
    return args.rows * args.seq * ((4 if args.lora else 6) * weights + attention)


def step(args, torch, device):
    model = make_model(args, torch, device)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, betas=(0.9, 0.95), weight_decay=0.1, fused=device == "cuda")
    vocab = SHAPES[args.model][5]
    tokens = torch.randint(0, vocab, (args.rows, args.seq), device=device)
    base = model.base_model.model if args.lora else model

    def part(hidden, labels):
        return torch.nn.functional.cross_entropy(base.lm_head(hidden).float(), labels, reduction="sum")

    def loss_of():
        hidden = base.model(input_ids=tokens).last_hidden_state.flatten(0, 1)
        if not args.chunked_loss:
            return part(hidden, tokens.flatten()) / tokens.numel()
        return sum(torch.utils.checkpoint.checkpoint(part, h, t, use_reentrant=False)
            for h, t in zip(hidden.chunk(8), tokens.flatten().chunk(8))) / tokens.numel()

    run, times, loss = torch.compile(loss_of) if args.compile else loss_of, [], None
    for _ in range(args.steps + 2):
        begin = time.perf_counter()
        loss = run()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        times.append(time.perf_counter() - begin)
    s = median(times[2:])
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return dict(what="PyTorch step", tokens_per_s=round(args.rows * args.seq / s, 1), flops_per_s=flops(args) / s, step_s=round(s, 4),
        first_s=round(times[0], 2), peak_bytes=peak, loss=round(value, 4))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["step", "gemm"])
    p.add_argument("--model", choices=SHAPES, default="1b")
    p.add_argument("--rows", type=int, default=1)
    p.add_argument("--seq", type=int, default=8192)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--lora", type=int, default=0)
    p.add_argument("--recompute", action="store_true")
    p.add_argument("--chunked-loss", action="store_true")
    p.add_argument("--no-compile", dest="compile", action="store_false")
    p.add_argument("--size", default="8192,16384")
    args = p.parse_args()
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    import torch.utils.checkpoint
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result = (gemm if args.what == "gemm" else step)(args, torch, device)
    print(json.dumps(dict(result, torch=torch.__version__, device=device)))


main()
