#!/usr/bin/env python3
"""Draws Hugging Face folders that are legal but odd (forms of config.json, of shards and of types), and compares the logits of
`drover eval --logits` with those of transformers, before and after `drover ckpt export` as a folder and as a GGUF file: they are
equal, or drover refuses the folder by the name of the feature that it does not support. Needs torch and transformers; run by
hand after a change of the readers of folders or of config.json.

    python tools/check_folders.py build/drover [N] [SEED]
"""
import collections, json, pathlib, random, shutil, subprocess, sys, tempfile, warnings
import torch, transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, SmolLM3Config

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = "The history of the fox and the dog, told by hens."
SHAPE = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, initializer_range=0.3,
             max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=None)
KINDS = [LlamaConfig] * 5 + [MistralConfig, Qwen2Config, Qwen3Config, SmolLM3Config]
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64, "F8_E4M3": torch.float8_e4m3fn}
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
# Types of scaling, and whether drover computes them.
ROPE = {"default": ({}, True), "llama3": (LLAMA3, True), "linear": (dict(factor=4.0), False), "dynamic": (dict(factor=2.0), False),
        "yarn": (dict(factor=4.0, original_max_position_embeddings=32), False),
        "longrope": (dict(factor=4.0, short_factor=[1.5] * 4, long_factor=[2.5] * 4, original_max_position_embeddings=32), False)}


def draw_rope(draw, config, refused):
    """Writes the rotary settings in the form of some release of transformers."""
    config.pop("rope_parameters", None)
    config.pop("rope_scaling", None)
    config.pop("rope_theta", None)
    theta, kind = draw.choice([10000.0, 10000, 500000.0, 777]), draw.choice(["default"] * 3 + ["llama3"] * 3 + list(ROPE))
    values, known = ROPE[kind]
    if not known:
        refused.append(kind)
    form = draw.choice(["scaling", "scaling", "parameters", "parameters"])
    names = draw.choice([["rope_type"], ["type"], ["type", "rope_type"]])
    scaling = dict(values, **{name: kind for name in names})
    if draw.random() < 0.2 and kind == "llama3":
        scaling["factor"] = 8
    if draw.random() < 0.2 and kind == "llama3":
        scaling.pop("original_max_position_embeddings")
    if draw.random() < 0.1:
        scaling["attention_factor"] = None
    where = draw.choice(["top", "inside", "both", "missing"])
    if where in ("top", "both"):
        config["rope_theta"] = theta if where == "top" else 123.0
    if where in ("inside", "both"):
        scaling["rope_theta"] = theta
    if draw.random() < 0.1:
        scaling["partial_rotary_factor"] = draw.choice([1, 1.0, 0.5])
        if scaling["partial_rotary_factor"] == 0.5:
            refused.append("partial_rotary_factor")
    if draw.random() < 0.1:
        config["original_max_position_embeddings"] = 32
    if kind == "default" and form == "scaling" and draw.random() < 0.6 and not refused:
        scaling = draw.choice([None, {}])
        if draw.random() < 0.5:
            return
    config["rope_scaling" if form == "scaling" else "rope_parameters"] = scaling
    if form == "scaling" and draw.random() < 0.2:  # the other name too, which does not count unless the first is empty
        config["rope_parameters"] = dict(rope_type="default", rope_theta=321.0)
    if form == "parameters" and draw.random() < 0.2:
        config["rope_scaling"] = draw.choice([None, {}])


def draw_config(draw, config, refused):
    draw_rope(draw, config, refused)
    config.pop("dtype", None)
    for name in draw.choice([["dtype"], ["torch_dtype"], ["dtype", "torch_dtype"], []]):
        config[name] = draw.choice(["float32", "bfloat16", "float16"])
    for name in ["num_key_value_heads", "head_dim"]:
        if name in config and config[name] == SHAPE["num_attention_heads"] * (2 if name == "head_dim" else 1):
            if draw.random() < 0.3 and config["model_type"] == "llama":  # it follows from the others
                config.pop(name)
    for name in ["rms_norm_eps", "attention_dropout", "use_cache", "bos_token_id", "eos_token_id", "pad_token_id", "architectures"]:
        if draw.random() < 0.15 and not (name.endswith("token_id") and config["model_type"] == "smollm3"):  # above vocab_size
            config.pop(name, None)
    if draw.random() < 0.2:
        config["eos_token_id"] = draw.choice([[0], [0, 2], 1])
    if draw.random() < 0.2 and config["model_type"] == "llama":
        config.pop("tie_word_embeddings") if not config["tie_word_embeddings"] else None
    if draw.random() < 0.1:
        config["hidden_act"] = draw.choice(["gelu", "silu", "swish", "relu"])
        if config["hidden_act"] not in ("silu", "swish"):
            refused.append("hidden_act")
    if draw.random() < 0.1:
        config |= dict(pretraining_tp=1, auto_map={}, made_up_later=3, _name_or_path="x")
    if draw.random() < 0.06:
        config["partial_rotary_factor"] = 0.5
        refused.append("partial_rotary_factor")


def draw_tensors(draw, tensors, refused):
    """Types, extra tensors, and a head that is stored or not."""
    for name in tensors:
        tensors[name] = tensors[name].clone().contiguous()
    mix = draw.choice([["F32"], ["F32"], ["F16"], ["BF16"], ["F32", "F16", "BF16"], ["F32", "F64"]])
    if draw.random() < 0.05:
        mix = ["F8_E4M3", "BF16"]
        refused.append("F8_E4M3")
    first = True
    for name in list(tensors):
        kind = "F8_E4M3" if first and "F8_E4M3" in mix else draw.choice(mix)
        first = False
        tensors[name] = tensors[name].to(TYPES[kind])
    if draw.random() < 0.15:
        for i in range(SHAPE["num_hidden_layers"]):
            tensors[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = torch.rand(4)
    elif draw.random() < 0.1:
        tensors["model.rotary_emb.inv_freq"] = torch.rand(4)
    if draw.random() < 0.08:
        tensors["model.layers.0.extra"] = draw.choice([torch.zeros(()), torch.zeros(0), torch.zeros(0, 3), torch.ones(2)])
        refused.append("extra")


def write_shards(draw, folder, tensors):
    names = list(tensors)
    draw.shuffle(names)
    n = draw.choice([2, 3, len(names)])
    ends = sorted(draw.sample(range(1, len(names)), n - 1)) + [len(names)]
    index, begin = {}, 0
    total = draw.choice([{"metadata": {}}, {"metadata": {"total_size": 1}}])
    for i, end in enumerate(ends):
        file = draw.choice(["model-{:05d}-of-{:05d}.safetensors", "part {} of {}.safetensors"]).format(i + 1, n)
        save_file({k: tensors[k] for k in names[begin:end]}, folder / file, metadata={"format": "pt"})
        index |= {k: file for k in names[begin:end]}
        begin = end
    (folder / "model.safetensors.index.json").write_text(json.dumps(total | {"weight_map": index}))


def make_folder(folder, draw):
    """Returns what is drawn, in words, and the features that are to be refused, one of them by its name."""
    refused, kind = [], draw.choice(KINDS)
    tied, vocab = draw.random() < 0.4, draw.choice([400, 400, 401, 448])
    options = dict(SHAPE, vocab_size=vocab, tie_word_embeddings=tied, num_key_value_heads=draw.choice([1, 2, 4]))
    if kind not in (Qwen2Config, SmolLM3Config):
        options["head_dim"] = draw.choice([8, 8, 16, 4])
    if kind is MistralConfig:
        options["sliding_window"] = draw.choice([None, 8, 128])
    if kind is LlamaConfig and draw.random() < 0.08:
        options[draw.choice(["attention_bias", "mlp_bias"])] = True
        refused.append("bias")
    made = AutoModelForCausalLM.from_config(kind(**options), dtype=torch.float32)
    for name, p in made.named_parameters():
        if name.endswith("norm.weight") or name.endswith("bias"):
            p.data += 0.3 * torch.randn_like(p)
    made.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    draw_config(draw, config, refused)
    draw_tensors(draw, tensors, refused)
    form = draw.choice(["file", "file", "shards", "shards", "stale index", "saved shards"])
    if tied and draw.random() < 0.4:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        form += ", head twice"
    (folder / "model.safetensors").unlink()
    if form.startswith("shards"):
        write_shards(draw, folder, tensors)
    elif form.startswith("saved shards") and not refused:
        made.load_state_dict({k: v.float() for k, v in tensors.items()}, strict=False)
        made.to(draw.choice([torch.float32, torch.bfloat16])).save_pretrained(folder, max_shard_size=draw.choice(["5KB", "30KB"]))
    else:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if form.startswith("stale"):
        index = {k: "model-00001-of-00002.safetensors" for k in list(tensors)[draw.randrange(3):]}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "config.json").write_text(json.dumps(config))
    if draw.random() < 0.5:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": draw.choice([0, [0, 2], [1]]), "do_sample": True}))
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(ROOT / "tests/golden/sft" / name, folder)
    shown = {k: v for k, v in config.items() if k not in SHAPE}
    return f"{form}; {json.dumps(shown)}", refused


def drover(program, *words):
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=60)


def logits_of(folder, ids):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits[0].float()


def distance(got, want):
    return ((got - want).norm() / want.norm()).item()


def check(program, number, seed, work):
    """Returns a word for the counts, and what is wrong ("": nothing)."""
    draw = random.Random(seed * 1000003 + number)
    torch.manual_seed(draw.randrange(1 << 30))
    base, out, text = work / "base", work / "out", work / "text.txt"
    what, refused = make_folder(base, draw)
    what = f"{number}: {what}; unsupported: {refused}"
    text.write_text(TEXT)
    logits = work / "logits.safetensors"
    ran = drover(program, "eval", base, "--text", text, "--logits", logits, "--precision", "fp32")
    said = ran.stderr.strip().splitlines()[-1:] or [""]
    if ran.returncode not in (0, 1, 2):
        return "crashed", f"{what}: exit {ran.returncode}: {ran.stderr}"
    if ran.returncode:
        return "refused", "" if any(word in said[0] for word in refused) else f"{what}: refused: {said[0]}"
    got = load_file(logits)
    ids = got["token_ids"].long().reshape(1, -1)
    try:
        want = logits_of(base, ids)
    except Exception as error:
        return "transformers refuses", f"{what}: transformers: {str(error).splitlines()[0][:200]}"
    if distance(got["logits"], want) > 1e-5:
        return "differs", f"{what}: logits differ by {distance(got['logits'], want):.3g}"
    if refused:
        return "ignored", f"{what}: not refused, and yet the same"
    ran = drover(program, "ckpt", "export", base, "--out", out)
    if ran.returncode:
        return "export fails", f"{what}: export: {ran.stderr.strip()}"
    if distance(logits_of(out, ids), want) > 1e-6:
        return "export differs", f"{what}: export differs by {distance(logits_of(out, ids), want):.3g}"
    ran = drover(program, "ckpt", "export", base, "--gguf", work / "out.gguf", "--type", "f32")
    if ran.returncode:
        return "GGUF fails", f"{what}: export --gguf: {ran.stderr.strip()}"
    logits.unlink()
    ran = drover(program, "eval", work / "out.gguf", "--text", text, "--logits", logits, "--precision", "fp32")
    if ran.returncode or distance(load_file(logits)["logits"], want) > 1e-5:
        return "GGUF differs", f"{what}: GGUF: {ran.stderr.strip() or distance(load_file(logits)['logits'], want)}"
    return "same", ""


def main():
    program, n, seed = sys.argv[1], *map(int, (sys.argv[2:] + ["200", "0"][len(sys.argv) - 2:])[:2])
    counts, n_bad = collections.Counter(), 0
    for i in range(n):
        with tempfile.TemporaryDirectory() as work:
            word, wrong = check(program, i, seed, pathlib.Path(work))
        counts[word] += 1
        n_bad += bool(wrong)
        if wrong:
            print(wrong, flush=True)
    print(f"{n} folders, seed {seed}: " + ", ".join(f"{k} {word}" for word, k in counts.items()) + f"; {n_bad} problems")
    return n_bad > 0


if __name__ == "__main__":
    sys.exit(main())
