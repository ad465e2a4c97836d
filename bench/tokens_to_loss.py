#!/usr/bin/env python3
"""Tokens to equal loss: optimizers at several learning rates and seeds, runs of as many tokens each, by the loss of held-out
text while they learn.

    RUNS=" " OUT=DIR bench/time_to_loss.sh build/drover       # the text, its tokenizer and data set
    bench/tokens_to_loss.py build/drover DIR MODEL STEPS --lr adamw:1e-3,2e-3 muon:1e-3,2e-3 [--seeds 3] [--rows 8] [--evaluations 20] [--set KEY=VALUE ...]

MODEL: a preset (llama-15m, with this text's vocabulary of 2,048) or 50m. Of each optimizer the rates are tried with seed 1, and
the best of them, by the loss at the end, with the further seeds. Runs that are there are not run again; what --set gives is part of
their names. At the end two tables in Markdown, and DIR/MODEL.svg: the curves of the best rate of each, all seeds. A run needs no
quiet machine: only tokens are counted.
"""
import argparse, json, pathlib, statistics, subprocess

SHAPES = {"50m": ["model.hidden_size=512", "model.intermediate_size=1376", "model.num_hidden_layers=15",
                  "model.num_attention_heads=8", "model.num_key_value_heads=4"]}
ROW = 256


def shape(model):
    keys = SHAPES.get(model, [f"model.preset={model}"])
    return [*keys, "model.vocab_size=2048", "model.max_position_embeddings=1024", "model.tie_word_embeddings=true"]


def name_of(args, optimizer, lr, seed):
    return "-".join([args.model, optimizer, lr, str(seed), *args.set])


def train(args, optimizer, lr, seed):
    """Returns [(tokens, loss of the held-out text)] of one run."""
    run = args.dir / name_of(args, optimizer, lr, seed)
    if not (run / "done").exists():
        keys = [*shape(args.model), f"optimizer.type={optimizer}", f"optimizer.lr={lr}", f"training.seed={seed}",
                f"training.steps={args.steps}", f"training.global_batch_size={args.rows}", f"training.micro_batch_size={min(4, args.rows)}",
                f"training.eval_every={max(1, args.steps // args.evaluations)}", "training.log_every=50", "schedule.type=cosine",
                "schedule.warmup_ratio=0.1", "tokenizer=tokenizer", "data.train=data/train", "data.valid=data/valid",
                "training.eval_batches=8", f"data.sequence_length={ROW}", "checkpoint.every=100", "checkpoint.keep=1", *args.set, f"run_dir={run}"]
        (args.dir / "empty.yaml").touch()
        with open(f"{run}.log", "a") as log:
            subprocess.run([args.drover, "train", "empty.yaml"] + [w for k in keys for w in ("--set", k)], cwd=args.dir, check=True,
                           stdout=log, stderr=subprocess.STDOUT)
        (run / "done").touch()
    lines = [json.loads(line) for line in open(run / "metrics.jsonl")]
    return [(line["step"] * args.rows * ROW, line["val_loss"]) for line in lines if "val_loss" in line]


def tokens_to(curve, loss):
    """Where the curve first has that loss, between two evaluations along a line; None: nowhere."""
    for (t0, l0), (t1, l1) in zip(curve, curve[1:]):
        if l1 <= loss:
            return t0 + (t1 - t0) * (l0 - loss) / (l0 - l1)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drover")
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("model")
    parser.add_argument("steps", type=int)
    parser.add_argument("--lr", nargs="+", required=True, metavar="OPTIMIZER:LR,LR")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--evaluations", type=int, default=20)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    args.drover, args.dir = pathlib.Path(args.drover).resolve(), args.dir.resolve()
    if not (args.dir / "data/valid.idx").exists():
        subprocess.run([args.drover, "data", "build", "--input", "text/valid", "--tokenizer", "tokenizer", "--out", "data/valid",
                        "--append-eod"], cwd=args.dir, check=True, stdout=subprocess.DEVNULL)
    best = {}
    print("| optimizer | learning rate | seed | loss of held-out text |\n|---|---|---|---|")
    for optimizer, rates in (one.split(":") for one in args.lr):
        ends = {}
        for lr in rates.split(","):
            ends[lr] = train(args, optimizer, lr, 1)[-1][1]
            print(f"| {optimizer} | {lr} | 1 | {ends[lr]:.4f} |", flush=True)
        lr = min(ends, key=ends.get)
        best[optimizer] = (lr, [train(args, optimizer, lr, seed) for seed in range(1, args.seeds + 1)])
        for seed, curve in enumerate(best[optimizer][1][1:], 2):
            print(f"| {optimizer} | {lr} | {seed} | {curve[-1][1]:.4f} |", flush=True)
    base = next(iter(best))
    print(f"\n| optimizer | learning rate | loss at the end, by seed | tokens to {base}'s, of {base}'s |\n|---|---|---|---|")
    for optimizer, (lr, curves) in best.items():
        shares = [tokens_to(curve, of[-1][1]) for curve, of in zip(curves, best[base][1])]
        words = [f"{share / of[-1][0]:.2f}" if share else "never" for share, of in zip(shares, best[base][1])]
        mean = statistics.mean(curve[-1][1] for curve in curves)
        print(f"| {optimizer} | {lr} | {', '.join(f'{c[-1][1]:.4f}' for c in curves)}; mean {mean:.4f} | {', '.join(words)} |")
    runs = [name_of(args, optimizer, lr, seed) for optimizer, (lr, _) in best.items() for seed in range(1, args.seeds + 1)]
    subprocess.run([args.drover, "plot", *runs, "--keys", "loss", "--out", f"{args.model}.svg"], cwd=args.dir, check=True)


main()
