#!/usr/bin/env python3
"""Trains random small models on every level of CPU kernels, and compares weights, moments and losses.

    tools/random_levels.py DROVER [N] [SEED]

Each of N models (100) has sizes that are no multiples of a vector or a block: heads of 2 to 256 numbers, odd groups of key-value heads,
rows of 1 to 200 tokens, a window, biases, norms of heads, Muon, bf16 state. With training.arithmetic portable it is trained for two
steps by each level that this processor has, on 1, 2 and 3 threads: checkpoints have the same bits. With fastest and fp32 losses are
those of the reference, in double, within 1e-5. A difference prints the keys; SEED repeats it.
"""
import hashlib, json, os, pathlib, random, subprocess, sys, tempfile

LEVELS = ["plain", "avx2", "avx512", "avx512_bf16"]
drover, n, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100, int(sys.argv[3]) if len(sys.argv) > 3 else 1
drover = os.path.abspath(drover)


def run(*words, **env):
    return subprocess.run([drover, *words], capture_output=True, text=True, env={"DROVER_PEAK_FLOPS": "1e12", **os.environ, **env})


def draw(r):
    """Keys of a model, as KEY=VALUE."""
    kv, rep, dim = r.choice([1, 1, 2, 3, 5]), r.choice([1, 1, 2, 3, 7]), r.choice([2, 4, 6, 10, 16, 34, 64, 80, 96, 112, 128, 256])
    heads, hidden, tokens = kv * rep, r.choice([1, 2, 7, 15, 16, 17, 33, 63, 65, 100]), r.choice([1, 2, 3, 15, 16, 17, 63, 64, 65, 129, 200])
    micro = r.choice([1, 1, 2, 3])
    keys = {
        "model.preset": "tiny", "model.hidden_size": hidden, "model.intermediate_size": r.choice([1, 3, 16, 31, 65]),
        "model.num_hidden_layers": r.choice([1, 2]), "model.num_attention_heads": heads, "model.num_key_value_heads": kv, "model.head_dim": dim,
        "model.vocab_size": r.choice([400, 401, 515, 1027]), "model.tie_word_embeddings": r.choice(["true", "false"]),
        r.choice(["model.qkv_bias", "model.qk_norm"]): r.choice(["true", "false"]), "data.sequence_length": tokens,
        "data.pack": r.choice(["documents", "stream"]), "training.global_batch_size": micro * r.choice([1, 2]),
        "training.micro_batch_size": micro, "training.precision": r.choice(["fp32", "bf16"]), "training.recompute": r.choice(["none", "selective", "full"]),
    }
    if r.random() < 0.3:
        keys["model.sliding_window"] = r.choice([1, 2, 17, 64, 70])
    if r.random() < 0.2:
        keys["optimizer.type"] = "muon"
    if tokens % 4 == 0:
        keys["parallel.context_blocks"] = r.choice([1, 2])
    if keys["training.precision"] == "bf16" and r.random() < 0.3:
        keys["optimizer.state_dtype"] = keys["training.grad_dtype"] = "bf16"
    return keys


def train(name, keys, level, threads, arithmetic):
    """The losses and the hash of the checkpoint; the message where the run is refused."""
    sets = [w for k, v in {**keys, "training.threads": threads, "training.arithmetic": arithmetic, "run_dir": name}.items() for w in ("--set", f"{k}={v}")]
    done = run("train", "run.yaml", *sets, DROVER_CPU=level)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1] if done.stderr else str(done.returncode)
    losses = [json.loads(line)["loss"] for line in open(f"{name}/metrics.jsonl") if '"loss"' in line]
    digest = hashlib.sha256()
    for file in sorted(pathlib.Path(name, "checkpoints").glob("step-*/*.safetensors")):
        digest.update(file.read_bytes())
    subprocess.run(["rm", "-rf", name])
    return losses, digest.hexdigest()


def main(folder):
    os.chdir(folder)
    with open("text.txt", "w") as f:
        f.writelines(f"Document {i} tells of the fox, the dog and {i * i % 97} lazy hens.\n\n" for i in range(500))
    for words in (
        ["tokenizer", "train", "--input", "text.txt", "--vocab-size", "400", "--out", "tok"],
        ["data", "build", "--input", "text.txt", "--separator", "\n\n", "--tokenizer", "tok", "--out", "set", "--append-eod"],
    ):
        if run(*words).returncode:
            sys.exit(run(*words).stderr)
    pathlib.Path("run.yaml").write_text("data: {train: set}\ntokenizer: tok\ntraining: {steps: 2, eval_every: 0, log_every: 1}\nrun_dir: run\n")
    small = {"model.preset": "tiny", "model.vocab_size": 400, "data.sequence_length": 4, "training.global_batch_size": 1}
    levels = [level for level in LEVELS if train("a", small, level, 1, "portable")[0]]
    bad = refused = 0
    for i in range(n):
        keys = draw(random.Random(seed * 100000 + i))
        shown = " ".join(f"{k}={v}" for k, v in keys.items())
        first, bits = train("a", keys, levels[0], 1, "portable")
        if first is None:
            refused += 1
            print(f"{i}: refused: {bits}: {shown}")
            continue
        for level in levels:
            for threads in (1, 2, 3) if level == levels[-1] else (2,):
                other, its = train("b", keys, level, threads, "portable")
                if (other, its) != (first, bits):
                    bad += 1
                    print(f"{i}: {level} on {threads} threads: {other if other else its}, expected {first}: {shown}")
        if keys["training.precision"] == "fp32":
            exact, _ = train("c", keys, "ref", 2, "fastest")
            got, why = train("d", keys, levels[-1], 2, "fastest")
            if not exact or not got or any(not abs(x - y) <= 1e-5 * abs(y) for x, y in zip(got, exact)):
                bad += 1
                print(f"{i}: {levels[-1]}: {got or why}, the reference {exact}: {shown}")
    print(f"{n} models, {refused} refused, levels {' '.join(levels)}: {bad} differ")
    return bad > 0


with tempfile.TemporaryDirectory() as folder:
    sys.exit(main(folder))
