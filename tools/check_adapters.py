#!/usr/bin/env python3
"""Draws random LoRA configs of PEFT and forms of a base, and compares the logits of `drover eval --logits --adapter` and `drover
ckpt merge` with PEFT's: they are equal, or drover refuses an adapter with a feature that it does not support. Needs torch,
transformers and peft; run by hand after a change of adapters.

    python tools/check_adapters.py build/drover [N] [SEED]
"""
import json, pathlib, random, shutil, subprocess, sys, tempfile, warnings
import peft, torch, transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, Qwen2Config, Qwen3Config

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = "The history of the fox and the dog, told by hens."
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SHAPE = dict(vocab_size=400, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, initializer_range=0.3, max_position_embeddings=128)
CONFIGS = [LlamaConfig, LlamaConfig, Qwen2Config, Qwen3Config]
FORMS = ["plain", "head twice", "head alone", "shards"]


def make_base(folder, draw):
    tied = draw.random() < 0.5
    kind = draw.choice(CONFIGS)
    model = AutoModelForCausalLM.from_config(kind(**SHAPE, tie_word_embeddings=tied), dtype=torch.float32)
    form = draw.choice(FORMS if tied else ["plain", "shards"])
    model.save_pretrained(folder, max_shard_size="30KB" if form == "shards" else "1GB")
    shutil.copy(ROOT / "tests/golden/sft/tokenizer.json", folder)
    shutil.copy(ROOT / "tests/golden/sft/tokenizer_config.json", folder)
    file = folder / "model.safetensors"
    if form.startswith("head"):
        tensors = load_file(file)
        table = tensors["model.embed_tokens.weight"]
        if form == "head alone":
            del tensors["model.embed_tokens.weight"]
        save_file(tensors | {"lm_head.weight": table.clone()}, file, metadata={"format": "pt"})
    return tied, f"{kind.model_type}, {'tied' if tied else 'untied'}, {form}"


def draw_pattern(draw, values):
    keys = LINEAR + [f"layers.{draw.randrange(3)}.self_attn.q_proj", "self_attn.k_proj", r".*\.mlp\..*", "[qv]_proj",
                     r"layers\.(0|2)\..*", "^model.layers.1.self_attn.(q|o)_proj", "gate_proj|up_proj", r"\w+_proj",
                     f"model.layers.{draw.randrange(3)}.mlp.down_proj"]
    return {k: draw.choice(values) for k in draw.sample(keys, draw.randrange(4))}


def draw_options(draw):
    options = dict(r=draw.choice([1, 2, 3, 8]), lora_alpha=draw.choice([1, 4, 7, 16, 2.5]),
                   lora_dropout=draw.choice([0.0, 0.1]), use_rslora=draw.random() < 0.3,
                   init_lora_weights=draw.choice([True, True, "gaussian"]),
                   fan_in_fan_out=False)
    targets = draw.choice(["names", "names", "paths", "regex", "all", "head"])
    if targets == "names":
        options["target_modules"] = draw.sample(LINEAR, draw.randrange(1, 6))
    elif targets == "paths":
        options["target_modules"] = [f"model.layers.{draw.randrange(3)}.self_attn.v_proj", "down_proj"]
    elif targets == "regex":
        options["target_modules"] = draw.choice([r".*_proj", r"model\.layers\.\d\.self_attn\.[qkvo]_proj",
                                                 r".*\.(?:mlp)\.(?!down).*_proj", r".*layers\.(0|1)\..*up_proj"])
    elif targets == "all":
        options["target_modules"] = "all-linear"
    else:
        options["target_modules"] = ["lm_head"] + draw.sample(LINEAR, draw.randrange(3))
    if draw.random() < 0.3:
        options["exclude_modules"] = draw.choice([["k_proj"], ["layers.1.self_attn.q_proj"], r".*layers\.0\..*"])
    if draw.random() < 0.3 and targets in ("names", "paths"):
        options["layers_to_transform"] = draw.choice([0, [1], [0, 2], [1, 2]])
        if draw.random() < 0.4:
            options["layers_pattern"] = draw.choice(["layers", ["layers"], ["blocks", "layers"]])
    if draw.random() < 0.5:
        options["rank_pattern"] = draw_pattern(draw, [1, 2, 5])
    if draw.random() < 0.5:
        options["alpha_pattern"] = draw_pattern(draw, [1, 3, 9, 0.5])
    refused = draw.choice([None] * 9 + [dict(use_dora=True), dict(bias="all"), dict(modules_to_save=["lm_head"]),
                                        dict(lora_bias=True), dict(trainable_token_indices=[3])])
    return options | (refused or {}), refused


def drover(program, *words):
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=60)


def logits_of(model, ids):
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits[0].float()


def check(program, number, seed, work):
    draw = random.Random(seed * 1000003 + number)
    torch.manual_seed(draw.randrange(1 << 30))
    base, folder = work / "base", work / "adapter"
    tied, form = make_base(base, draw)
    options, refused = draw_options(draw)
    load = lambda: AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    try:
        model = peft.get_peft_model(load(), peft.LoraConfig(task_type="CAUSAL_LM", **options))
    except Exception:  # no module of these names, and the like
        return "nothing"
    for name, p in model.named_parameters():
        if "lora_" in name:
            p.data = 0.2 * torch.randn_like(p)
    model.peft_config["default"].base_model_name_or_path = str(base)
    model.save_pretrained(folder)
    try:
        model = peft.PeftModel.from_pretrained(load(), folder)
    except Exception:  # it sorts the keys of patterns, of which the first counts
        model = None
    text, out = work / "text.txt", work / "logits.safetensors"
    text.write_text(TEXT)
    ran = drover(program, "eval", base, "--adapter", folder, "--text", text, "--logits", out, "--precision", "fp32")
    heads = any("lm_head" in n for n in load_file(folder / "adapter_model.safetensors"))
    fine = model is not None and not refused and not (tied and heads)
    what = f"{number}: {form}; {json.dumps(options)}"
    if ran.returncode not in (0, 1, 2):
        return f"{what}: exit {ran.returncode}"
    if (ran.returncode == 0) != fine:
        return f"{what}: exit {ran.returncode}, expected {'0' if fine else 'a refusal'}: {ran.stderr.strip()}"
    if not fine:
        return "refused"
    got = load_file(out)
    ids = got["token_ids"].long().reshape(1, -1)
    want = logits_of(model, ids)
    error = ((got["logits"] - want).norm() / want.norm()).item()
    if error > 1e-5:
        return f"{what}: logits differ by {error:.3g}"
    ran = drover(program, "ckpt", "merge", base, folder, "--out", work / "merged")
    if ran.returncode:
        return f"{what}: merge: {ran.stderr.strip()}"
    merged = AutoModelForCausalLM.from_pretrained(work / "merged", dtype=torch.float32, attn_implementation="eager")
    error = ((logits_of(merged, ids) - want).norm() / want.norm()).item()
    return "same" if error < 1e-5 else f"{what}: the merged logits differ by {error:.3g}"


def main():
    program, n, seed = sys.argv[1], *map(int, (sys.argv[2:] + ["200", "0"][len(sys.argv) - 2:])[:2])
    counts = {}
    for i in range(n):
        with tempfile.TemporaryDirectory() as work:
            result = check(program, i, seed, pathlib.Path(work))
        if result not in ("same", "refused", "nothing"):
            print(result)
            result = "WRONG"
        counts[result] = counts.get(result, 0) + 1
    print(counts)
    sys.exit("WRONG" in counts)


main()
