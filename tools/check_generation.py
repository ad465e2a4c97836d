#!/usr/bin/env python3
"""Draws random values for generation_config.json, the ids of config.json and the roles of the tokenizer, converts the model to GGUF
and back, and checks that each id and key is the same afterwards, or that `drover ckpt export` named it.

    python tools/check_generation.py build/drover BASE [N] [SEED]

BASE is a small Hugging Face folder with a tokenizer of two special tokens at least. Run by hand after a change of GGUF.
"""
import json, pathlib, random, shutil, subprocess, sys, tempfile

IDS = ["bos_token_id", "eos_token_id", "pad_token_id"]
KEYS = dict(do_sample=[True, False, None], temperature=[0.6, 1.0, 0.7], top_k=[50, 0, -1], top_p=[0.9, 1.0], min_p=[0.05],
            repetition_penalty=[1.1, 1.0], max_new_tokens=[9], num_beams=[1, 4], typical_p=[0.9])


def draw_ids(draw, key):
    if key == "eos_token_id":
        return draw.choice([None, 0, 1, 2, [2], [2, 0], [0, 2, 1], [5, 6, 7, 8]])
    return draw.choice([None, 0, 1, 3])


def change(folder, draw, specials):
    """Writes drawn files into the folder; returns config.json and generation_config.json (None: there is none)."""
    config = json.loads((folder / "config.json").read_text())
    config |= {key: draw_ids(draw, key) for key in IDS}
    (folder / "config.json").write_text(json.dumps(config))
    file = folder / "tokenizer_config.json"
    roles = json.loads(file.read_text())
    for role in "bos_token", "eos_token", "pad_token":
        roles.pop(role, None)
        if draw.random() < 0.6:
            roles[role] = draw.choice(specials)
    file.write_text(json.dumps(roles))
    file = folder / "generation_config.json"
    file.unlink(missing_ok=True)
    if draw.random() < 0.15:
        return config, None
    generation = {key: draw.choice(values) for key, values in KEYS.items() if draw.random() < 0.5}
    generation |= {key: draw_ids(draw, key) for key in IDS if draw.random() < 0.5}
    file.write_text(json.dumps(generation))
    return config, generation


def same(key, before, after):
    if before is None or before is False and not after:
        return True
    if key in IDS:
        as_list = lambda v: [] if v is None else sorted(v) if isinstance(v, list) else [v]
        return as_list(before) == as_list(after)
    if isinstance(before, float) and isinstance(after, float):
        return abs(before - after) < 1e-6
    return before == after


def check(program, base, draw, specials, work):
    model, file, back = work / "model", work / "x.gguf", work / "back"
    shutil.copytree(base, model)
    config, generation = change(model, draw, specials)
    run = lambda *words: subprocess.run([program, "ckpt", *map(str, words), "--no-verify"], capture_output=True, text=True)
    out = run("export", model, "--gguf", file)
    into = run("import", file, "--out", back)
    if out.returncode or into.returncode:
        return [out.stderr + into.stderr]
    now = {name: json.loads((back / name).read_text()) for name in ("config.json", "generation_config.json")}
    wrong = []
    for name, before in ("config.json", {k: config[k] for k in IDS}), ("generation_config.json", generation or {}):
        said = " ".join(line for line in out.stderr.splitlines() if f"of {name}," in line)
        wrong += [f"{name}: {key} {value} becomes {now[name].get(key)}, and is not named: {said}"
                  for key, value in before.items() if not same(key, value, now[name].get(key)) and f"{key} " not in said]
    if bool((generation or {}).get("do_sample")) != bool(now["generation_config.json"].get("do_sample")):
        wrong.append(f"do_sample of {generation} becomes that of {now['generation_config.json']}")
    return wrong


def main():
    program, base = sys.argv[1], pathlib.Path(sys.argv[2])
    n, seed = map(int, (sys.argv[3:] + ["200", "0"][len(sys.argv) - 3:])[:2])
    specials = [t["content"] for t in json.loads((base / "tokenizer.json").read_text())["added_tokens"] if t["special"]]
    n_wrong = 0
    for i in range(n):
        with tempfile.TemporaryDirectory() as work:
            for line in check(program, base, random.Random(seed * 1000003 + i), specials, pathlib.Path(work)):
                print(f"{i}: {line}")
                n_wrong += 1
    print(f"{n} models, {n_wrong} keys wrong")
    sys.exit(n_wrong > 0)


main()
