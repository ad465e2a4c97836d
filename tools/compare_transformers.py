#!/usr/bin/env python3
"""Compares drover with transformers in double on random small models of every family: the loss of `drover eval`, the loss and
gradient norm of a few steps of `drover train` (2e-4), and for one step the loss (1e-5) and the gradient of every tensor relative
to its norm (1e-4). These bounds are for fp32. In bf16 the largest of these errors, except that of the one loss, may be three
times that of transformers in bf16, whose fp32 master weights are rounded for each step as drover's are. Shapes are odd: heads
whose widths do not add up to the hidden size, vocabularies of any size, one key-value head, one layer, windows of one token and
beyond the row. Needs torch, transformers, numpy, safetensors. `--set` is passed on, as in `--set backend=pjrt`.

    python tools/compare_transformers.py build/drover [models] [seed] [family ...] [--set KEY=VALUE ...]
"""
import argparse, json, pathlib, random, struct, subprocess, sys, tempfile
import numpy as np, torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, SmolLM3Config
from transformers.utils import logging

logging.disable_progress_bar()

FAMILIES = {"llama": LlamaConfig, "mistral": MistralConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config,
            "smollm3": SmolLM3Config}
# AdamW's first steps divide a gradient by its own size: with a small epsilon an element near 0 makes its rounding a step.
STEPS, LR, BETAS, EPS, DECAY, CLIP = 3, 1e-2, (0.9, 0.95), 1e-3, 0.1, 1.0


def random_config(r, family):
    head_dim = r.choice([4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 256])
    kv = r.choice([1, 1, 2, 3])
    heads = kv * r.choice([1, 2, 3, 4])
    scaling = r.choice([None, dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                   high_freq_factor=4.0, original_max_position_embeddings=32)])
    window = r.choice([None, 1, r.randint(1, 300), r.randint(1, 30), 4096])
    more = {"llama": {}, "mistral": dict(sliding_window=window),
            "smollm3": dict(no_rope_layer_interval=r.randint(1, 4), pad_token_id=None)}.get(family,
        dict(use_sliding_window=window is not None, sliding_window=window, max_window_layers=r.randint(0, 3)))
    return FAMILIES[family](vocab_size=r.randint(17, 700), hidden_size=heads * r.randint(1, 150 // heads),
        intermediate_size=r.randint(1, 300), num_hidden_layers=r.randint(1, 3),
        num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim,
        max_position_embeddings=4096, rms_norm_eps=r.choice([1e-5, 1e-6]), rope_theta=r.choice([1e4, 5e5]),
        rope_scaling=scaling, tie_word_embeddings=r.random() < 0.5, initializer_range=0.1,
        bos_token_id=0, eos_token_id=1, attn_implementation="eager", **more)


def write_dataset(prefix, tokens):
    """Megatron's .bin/.idx: one document of int32."""
    tokens.astype(np.int32).tofile(f"{prefix}.bin")
    with open(f"{prefix}.idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 1, 2))
        f.write(np.array([len(tokens)], np.int32).tobytes() + np.array([0], np.int64).tobytes())
        f.write(np.array([0, 1], np.int64).tobytes())


def loss_of(model, x, y, dtype=torch.float64):
    """The loss of a model that computes with copies of its parameters in dtype."""
    copies = {n: p.to(dtype) for n, p in model.named_parameters()}
    logits = torch.func.functional_call(model, copies, kwargs=dict(input_ids=x)).logits.double()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def reference(model, x, y, dtype=torch.float64):
    """Loss and norm of the gradient before each step, and the loss after the last."""
    two = [p for p in model.parameters() if p.dim() == 2]
    one = [p for p in model.parameters() if p.dim() == 1]
    adamw = torch.optim.AdamW([dict(params=two, weight_decay=DECAY), dict(params=one, weight_decay=0.0)],
                              lr=LR, betas=BETAS, eps=EPS)
    out = []
    for _ in range(STEPS):
        adamw.zero_grad()
        loss = loss_of(model, x, y, dtype)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        out += [loss.item(), norm.item()]
        adamw.step()
    return out + [loss_of(model, x, y, dtype).item()]


def error_of(numbers, truth):
    """The largest error of a number, as a part of it."""
    assert len(numbers) == len(truth), numbers
    return max(abs(g - w) / max(abs(w), 1e-3) for g, w in zip(numbers, truth))


def gradients(model, x, y, dtype=torch.float64):
    """The loss, and the gradient of each parameter."""
    model.zero_grad()
    loss = loss_of(model, x, y, dtype)
    loss.backward()
    return loss.item(), {n: p.grad.clone() for n, p in model.named_parameters()}


def drover_gradients(run_dir):
    """The same of one step of drover, whose first moments have the gradients."""
    loss = [json.loads(l) for l in open(run_dir / "metrics.jsonl")][0]["loss"]
    moments = load_file(run_dir / "checkpoints/step-000001/optimizer.safetensors")
    return loss, {n[8:]: m / (1 - BETAS[0]) for n, m in moments.items() if n.startswith("exp_avg.")}


def compare_gradients(got, wanted):
    """(the largest error of a gradient, as a part of its norm; its tensor)"""
    worst = (0, "")
    for name, gradient in wanted.items():
        # Some are 0 but for rounding: those of biases of keys, which move all scores of a query alike, and of queries whose
        # window is one token. fp32 rounds what they are made of by 1e-7.
        size = max(gradient.norm().item(), 1e-3 * sum(g.norm().item() for g in wanted.values()))
        worst = max(worst, ((got[name].double() - gradient).norm().item() / size, name))
    return worst


def run(*command):
    p = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if p.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{p.stdout}{p.stderr}")
    return p.stdout


def compare(drover, r, family, folder, sets):
    config = random_config(r, family)
    torch.manual_seed(r.randrange(1 << 30))
    model = AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.3 * torch.randn_like(p))
    model.save_pretrained(folder / "model")
    rows, seq = r.randint(1, 5), r.randint(1, 300)
    micro = r.choice([m for m in range(1, rows + 1) if rows % m == 0])
    tokens = np.random.default_rng(r.randrange(1 << 30)).integers(0, config.vocab_size, rows * seq + 1)
    write_dataset(folder / "data", tokens)
    x = torch.tensor(tokens[:-1]).view(rows, seq)
    y = torch.tensor(tokens[1:]).view(rows, seq)
    double = AutoModelForCausalLM.from_config(config).double()
    double.load_state_dict({k: v.double() for k, v in model.state_dict().items()})
    loss, wanted = gradients(double, x, y)
    truth = reference(double, x, y)
    torch_bf16 = compare_gradients(gradients(model, x, y, torch.bfloat16)[1], wanted)[0]
    torch_bf16 = max(torch_bf16, error_of(reference(model, x, y, torch.bfloat16), truth))
    worst, one = {}, {}
    more = [x for s in sets for x in ("--set", s)]
    for precision, recompute in (("fp32", "none"), ("fp32", "full"), ("bf16", "none"), ("bf16", "selective")):
        name = folder / f"run-{precision}-{recompute}"
        (folder / "run.yaml").write_text(f"""
model: {{from: {folder}/model, weights: load}}
data: {{train: {folder}/data, valid: {folder}/data, sequence_length: {seq}, pack: stream}}
training: {{steps: {STEPS}, global_batch_size: {rows}, micro_batch_size: {micro}, precision: {precision},
  recompute: {recompute}, eval_every: 0}}
optimizer: {{lr: {LR}, betas: [{BETAS[0]}, {BETAS[1]}], eps: {EPS}, weight_decay: {DECAY}, clip_grad_norm: {CLIP}}}
schedule: {{type: constant, warmup_steps: 0}}
run_dir: {name}
""")
        run(drover, "train", folder / "run.yaml", *more)
        got = [json.loads(l) for l in open(name / "metrics.jsonl")]
        got = [m[key] for m in got if "grad_norm" in m for key in ("loss", "grad_norm")]
        final = json.loads(run(drover, "eval", folder / "run.yaml", "--data", folder / "data", "--json", *more))
        worst[precision] = max(worst.get(precision, 0), error_of(got + [final["loss"]], truth))
    for precision in worst:
        run(drover, "train", folder / "run.yaml", *more, "--set", "training.steps=1", "--set", "optimizer.clip_grad_norm=0",
            "--set", f"training.precision={precision}", "--set", f"run_dir={folder}/one-{precision}")
        one[precision] = drover_gradients(folder / f"one-{precision}")
    loss_error, (gradient_error, tensor) = abs(one["fp32"][0] / loss - 1), compare_gradients(one["fp32"][1], wanted)
    bf16 = max(worst["bf16"], compare_gradients(one["bf16"][1], wanted)[0])
    shape = (f"{family:8}V {config.vocab_size} H {config.hidden_size} F {config.intermediate_size} L {config.num_hidden_layers} "
             f"heads {config.num_attention_heads}/{config.num_key_value_heads} x {config.head_dim} window {getattr(config, 'sliding_window', None)} rows {rows} "
             f"(by {micro}) x {seq}")
    bad = worst["fp32"] > 2e-4 or bf16 > 3 * torch_bf16 or loss_error > 1e-5 or gradient_error > 1e-4
    print(f"{'BAD ' if bad else 'ok  '}fp32 {worst['fp32']:.1e}  bf16 {bf16:.1e} (torch {torch_bf16:.1e})  loss {loss_error:.1e}  "
          f"gradients {gradient_error:.1e} ({tensor})  {shape}", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("drover")
    parser.add_argument("models", type=int, nargs="?", default=20)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("families", nargs="*", metavar="family")
    parser.add_argument("--set", action="append", default=[], dest="sets")
    o = parser.parse_args()
    families = o.families or sorted(FAMILIES)
    bad = 0
    for i in range(o.models):
        with tempfile.TemporaryDirectory() as folder:
            bad += compare(o.drover, random.Random(o.seed * 1000 + i), families[i % len(families)], pathlib.Path(folder), o.sets)
    print(f"{o.models} models, {bad} differ")
    sys.exit(bad > 0)


main()
