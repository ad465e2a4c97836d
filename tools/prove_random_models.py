#!/usr/bin/env python3
"""Sends random small Llamas through `drover ckpt export`, `merge` and `verify`: right results must pass, damaged copies must be found.

    python tools/prove_random_models.py build/drover [--models 1000] [--seed 1] [--first 0] [--harmed 10]

Each model has a shape, scales and oddities of its own (widths from 1 on, subnormal weights, rows of zeros, logits that are
nearly alike). It is exported as f32, bf16 and f16, merged with a random adapter as f32, bf16 and f16, and verified both ways; a
problem with any of these is a false alarm. Of the first --harmed models every kind of harm is done to one place of the f32, bf16
and f16 export; `verify` has to find it wherever the harm is more than rounding could do. Needs nothing but Python. Ends with 1
if there was a false alarm or a harm that was not found.
"""
import argparse, json, math, os, pathlib, random, shutil, struct, subprocess, sys, tempfile

ROUNDOFF = {"f32": 2.0 ** -24, "bf16": 2.0 ** -8, "f16": 2.0 ** -11}
FLOOR = {"f32": 2.0 ** -150, "bf16": 2.0 ** -134, "f16": 2.0 ** -25}


def write_tensors(path, tensors):
    """{name: (shape, values)} as F32."""
    header, at = {}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * len(values)]}
        at += 4 * len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            file.write(struct.pack(f"<{len(values)}f", *values))


def draw(r, shape, scale):
    kind, values = r.random(), [scale * r.gauss(0, 1) for _ in range(math.prod(shape))]
    cols = shape[-1]
    if kind < 0.05:  # subnormal in bf16
        values = [x * 1e-39 if r.random() < 0.2 else x for x in values]
    elif kind < 0.10:  # subnormal in f16
        values = [x * 1e-6 if r.random() < 0.2 else x for x in values]
    elif kind < 0.15:
        zero = r.randrange(shape[0])
        values = [0.0 if i // cols == zero else x for i, x in enumerate(values)]
    elif kind < 0.20:  # an outlier
        values[r.randrange(len(values))] *= 100
    return values


def projections(m):
    h, q, kv, f = m["hidden_size"], m["num_attention_heads"] * m["head_dim"], m["num_key_value_heads"] * m["head_dim"], \
        m["intermediate_size"]
    return {"self_attn.q_proj": [q, h], "self_attn.k_proj": [kv, h], "self_attn.v_proj": [kv, h], "self_attn.o_proj": [h, q],
            "mlp.gate_proj": [f, h], "mlp.up_proj": [f, h], "mlp.down_proj": [h, f]}


def make_model(r, folder):
    kv = r.choice([1, 1, 2])
    m = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "float32",
         "rms_norm_eps": 1e-5, "max_position_embeddings": 128, "rope_theta": 10000.0, "bos_token_id": 0, "eos_token_id": 0,
         "num_key_value_heads": kv, "num_attention_heads": kv * r.choice([1, 1, 2]), "head_dim": 2 * r.choice([1, 1, 2, 4, 8]),
         "hidden_size": r.choice([1, 2, 3, 4, 8, 16, 32]), "intermediate_size": r.choice([1, 2, 3, 5, 16, 64]),
         "num_hidden_layers": r.choice([1, 1, 2, 3, 5]), "vocab_size": r.choice([3, 17, 64, 300]),
         "tie_word_embeddings": r.random() < 0.5}
    h, v, scale, tensors = m["hidden_size"], m["vocab_size"], 10 ** r.uniform(-2.5, 0.3), {}
    add = lambda name, shape, values: tensors.__setitem__(name + ".weight", (shape, values))
    gain = lambda: [1 + 0.2 * r.gauss(0, 1) for _ in range(h)]
    add("model.embed_tokens", [v, h], draw(r, [v, h], scale))
    for i in range(m["num_hidden_layers"]):
        for name, shape in projections(m).items():
            add(f"model.layers.{i}.{name}", shape, draw(r, shape, scale))
        add(f"model.layers.{i}.input_layernorm", [h], gain())
        add(f"model.layers.{i}.post_attention_layernorm", [h], gain())
    add("model.norm", [h], gain())
    if not m["tie_word_embeddings"]:
        add("lm_head", [v, h], draw(r, [v, h], scale))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(m))
    write_tensors(folder / "model.safetensors", tensors)
    return m, scale


def make_adapter(r, m, scale, folder):
    rank, names = r.choice([1, 2, 4]), r.sample(sorted(projections(m)), r.choice([1, 3, 7]))
    tensors = {}
    for i in range(m["num_hidden_layers"]):
        for name in names:
            rows, cols = projections(m)[name]
            path = f"base_model.model.model.layers.{i}.{name}.lora_"
            tensors[path + "A.weight"] = ([rank, cols], [r.gauss(0, 1) for _ in range(rank * cols)])
            tensors[path + "B.weight"] = ([rows, rank], [scale * r.gauss(0, 0.3) for _ in range(rows * rank)])
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "lora_dropout": 0.0, "bias": "none", "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "base", "target_modules": [n.split(".")[1] for n in names]}))
    write_tensors(folder / "adapter_model.safetensors", tensors)


# --- harm to one tensor of an exported file
PLACES = ("embed_tokens", "q_proj", "o_proj", "gate_proj", "down_proj", "model.norm")


def decode(t, data):
    if t == "bf16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(data) // (4 if t == 'f32' else 2)}{'f' if t == 'f32' else 'e'}", data))


def encode(t, values):
    if t == "bf16":
        return b"".join(struct.pack("<f", x)[2:] for x in values)  # cut, as some programs do
    return struct.pack(f"<{len(values)}{'f' if t == 'f32' else 'e'}", *values)


def harm_sign(x, rows, cols, at): x[at] = -x[at]
def harm_zero(x, rows, cols, at): x[at] = 0.0
def harm_scale(x, rows, cols, at): x[at] *= 1.1
def harm_rows(x, rows, cols, at):
    a, b = at // cols * cols, (at // cols + 1) % rows * cols
    x[a:a + cols], x[b:b + cols] = x[b:b + cols], x[a:a + cols]
def harm_shift(x, rows, cols, at): x[:] = x[1:] + x[:1]


HARMS = (harm_sign, harm_zero, harm_scale, harm_rows, harm_shift)


# Writes the harmed file; False where rounding could have done as much.
def do_harm(r, t, place, harm, source, target):
    raw = source.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    name = r.choice(sorted(k for k in header if place in k))
    rows, cols = (header[name]["shape"] + [1])[:2]
    begin, end = (8 + n + x for x in header[name]["data_offsets"])
    old = decode(t, raw[begin:end])
    new, at = old[:], max(range(len(old)), key=lambda i: abs(old[i]))
    harm(new, rows, cols, at)
    harmed = encode(t, new)
    new, seen = decode(t, harmed), False
    for row in range(rows):
        a, b = old[row * cols:][:cols], new[row * cols:][:cols]
        rms = max(math.sqrt(sum(x * x for x in v) / cols) for v in (a, b))
        seen |= any(abs(x - y) > 4 * (ROUNDOFF[t] + ROUNDOFF["f32"]) * max(abs(x), abs(y), 4 * rms) + 4 * FLOOR[t]
                    for x, y in zip(a, b))
    target.write_bytes(raw[:begin] + harmed + raw[end:])
    return seen


def harm_all(r, run, top, k):
    done, missed = 0, []
    for t in ("f32", "bf16", "f16"):
        if not (top / f"export-{t}").exists(): continue
        shutil.copytree(top / f"export-{t}", top / "harmed", dirs_exist_ok=True)
        for place in PLACES:
            for harm in HARMS:
                files = (top / folder / "model.safetensors" for folder in (f"export-{t}", "harmed"))
                if not do_harm(r, t, place, harm, *files):
                    continue
                done += 1
                if run("ckpt", "verify", top / "base", top / "harmed")[0] != 1:
                    missed.append((k, t, place, harm.__name__))
                    print(f"model {k}: not found: {harm.__name__} of {place} as {t}", flush=True)
    return done, missed


def main():
    p = argparse.ArgumentParser()
    p.add_argument("drover")
    p.add_argument("--models", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--harmed", type=int, default=10)
    o = p.parse_args()
    drover, alarms, proofs, vanished, harms, missed = os.path.abspath(o.drover), [], 0, 0, 0, []
    env = dict(os.environ, DROVER_THREADS="1")

    def run(*args):
        done = subprocess.run([drover, *map(str, args)], env=env, capture_output=True, text=True)
        return done.returncode, done.stderr.strip().split("\n")[-1]

    for k in range(o.first, o.first + o.models):
        r = random.Random(o.seed * 1000003 + k)
        with tempfile.TemporaryDirectory() as top:
            top = pathlib.Path(top)
            m, scale = make_model(r, top / "base")
            make_adapter(r, m, scale, top / "adapter")
            for t in ("f32", "bf16", "f16"):
                for what, args in (("export", ["export", top / "base"]), ("merge", ["merge", top / "base", top / "adapter"])):
                    status, said = run("ckpt", *args, "--out", top / f"{what}-{t}", "--dtype", t)
                    proofs += 1
                    if what == "merge" and t != "f32" and "the adapter changes logits by" in said:
                        vanished += 1  # less than rounding does to the merged weights: rightly refused
                    elif status:
                        alarms.append((k, what, t))
                        print(f"model {k}, {what} {t}: {said}\n  {json.dumps(m)}", flush=True)
            for a, b in (("base", "export-bf16"), ("export-bf16", "export-f16"), ("export-f16", "base")):
                if not ((top / a).exists() and (top / b).exists()): continue
                status, said = run("ckpt", "verify", top / a, top / b)
                proofs += 1
                if status:
                    alarms.append((k, a, b))
                    print(f"model {k}, verify {a} {b}: {said}", flush=True)
            if k - o.first < o.harmed:
                done, not_found = harm_all(r, run, top, k)
                harms, missed = harms + done, missed + not_found
    print(f"{o.models} models, {proofs} proofs ({vanished} of adapters that vanish in rounding), {len(alarms)} false alarms; "
          f"{harms} harmed copies, {len(missed)} not found")
    sys.exit(bool(alarms or missed))


main()
