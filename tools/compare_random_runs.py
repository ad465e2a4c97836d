#!/usr/bin/env python3
"""Trains random small models on random sets with random keys of a run, and compares each step with a plain loop of torch: transformers'
model in double, torch.optim.AdamW, the cross entropy of each document or example by itself. Drawn are the family, tied weights, the
objective (documents, stream, examples with labels, preference pairs), data.loss, data.too_long, data.split, rows that are too short for
some documents, LoRA from an adapter of PEFT (rsLoRA, patterns, excluded modules), the schedule, clipping, decay, the micro-batch, and two
layouts, of which the second resumes the first. A step goes once or several times over all rows, so their order does not count.

    python tools/compare_random_runs.py build/drover [RUNS] [SEED] [ONLY]

ONLY is the number of one run, to see it again.

Compared are loss, learning rate, norm of the gradient and rewards of each step, the validation loss before the first and after the last
step, and the weights at the end. Exit status 1: one differs by more than fp32 explains. Needs torch, transformers, peft, pyarrow, mpirun.
"""
import json, math, os, pathlib, random, re, subprocess, sys, tempfile
import numpy, pyarrow, pyarrow.parquet, torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, SmolLM3Config
from transformers.utils import logging

logging.disable_progress_bar()
FAMILIES = {"llama": LlamaConfig, "mistral": MistralConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config, "smollm3": SmolLM3Config}
LAYOUTS = [{}, {}, dict(data=2), dict(tensor=2), dict(pipeline=2), dict(context=2), dict(data=2, zero=2), dict(data=2, zero=3),
           dict(tensor=2, pipeline=2), dict(data=2, tensor=2), dict(data=2, pipeline=2), dict(context=2, tensor=2)]
MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LETTERS = [chr(x) for x in range(33, 127) if x != ord("<")]
VOCABULARY, STEPS = 2 + len(LETTERS), 4


def write_tokenizer(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    words = ["<s>", "</s>"] + LETTERS
    t = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, []))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.add_special_tokens(words[:2])
    folder.mkdir()
    t.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(bos_token="<s>", eos_token="</s>", tokenizer_class="PreTrainedTokenizerFast")))


def draw_model(r):
    family = r.choice(list(FAMILIES))
    kv = r.choice([1, 2, 2])
    heads, head_dim = 2 * kv if kv == 1 else r.choice([2, 4]), r.choice([4, 8, 16])
    window = r.choice([None, 3, 17])
    more = {"llama": dict(rope_scaling=r.choice([None, dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)])),
            "mistral": dict(sliding_window=window), "smollm3": dict(no_rope_layer_interval=2, pad_token_id=None)}.get(
        family, dict(use_sliding_window=window is not None, sliding_window=window, max_window_layers=1))
    config = FAMILIES[family](vocab_size=VOCABULARY + r.choice([0, 1, 31]), hidden_size=r.choice([24, 32]), intermediate_size=r.choice([40, 64]),
                              num_hidden_layers=r.choice([2, 3]), num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim, max_position_embeddings=512,
                              tie_word_embeddings=r.random() < .5, initializer_range=.15, bos_token_id=0, eos_token_id=1, attn_implementation="eager", **more)
    torch.manual_seed(r.randrange(1 << 30))
    model = AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(.2 * torch.randn_like(p))
    return model


def draw_documents(r, kind, row):
    """Lists of (ids, labelled): of pairs the chosen response first."""
    documents = []
    ids = lambda n: [r.randrange(2, VOCABULARY) for _ in range(n)]
    for _ in range(r.randint(3, 9)):
        if kind == "pairs":
            prompt, shared = ids(r.randint(1, max(1, row // 3))), ids(r.choice([0, 0, 2]))
            for _ in range(2):
                response = shared + ids(r.randint(1, row // 2 if r.random() < .7 else row)) + [1]
                documents.append((prompt + response, [False] * len(prompt) + [True] * len(response)))
            continue
        n = r.choice([1, 2, r.randint(2, row), r.randint(2, row), row, row + 1, row + 2, r.randint(row, 3 * row)])
        labelled, learned = [], r.random() < .3
        while len(labelled) < n:
            labelled += [learned] * r.randint(1, max(1, row // 3))
            learned = not learned
        if kind in ("documents", "stream") or any(labelled[:n]): # data build leaves out rows of ids without a label
            documents.append((ids(n), labelled[:n]))
    return documents


def only_last(labelled):
    end = max((i for i, l in enumerate(labelled) if l), default=-1)
    begin = end
    while begin > 0 and labelled[begin - 1]:
        begin -= 1
    return [begin <= i <= end for i in range(len(labelled))]


def pieces_of(documents, c):
    """[(ids, whether each is predicted)]: what is computed by itself. The first id of a piece is only read."""
    T, all_tokens = c["row"], c["loss"] == "all"
    marks = [(ids, [True] * len(ids) if all_tokens else only_last(l) if c["loss"] == "last" else l) for ids, l in documents]
    if c["pack"] == "examples":
        return [(ids[:T + 1], m[:T + 1]) for ids, m in marks if len(ids) <= T + 1 or c["too_long"] == "truncate"]
    stream = [(i, m, d) for d, (ids, ms) in enumerate(marks) for i, m in zip(ids, ms)]
    pieces = []
    for at in range(0, len(stream) - 1, T):
        row = stream[at:at + T + 1]
        if c["pack"] == "stream":
            pieces.append(row)
        else:
            for d in sorted({x[2] for x in row}):
                pieces.append([x for x in row if x[2] == d])
    return [([x[0] for x in p], [x[1] for x in p]) for p in pieces]


def pairs_of(documents, c):
    """[(ids, first token of the response) of both] of each pair that is learned."""
    T, out = c["row"], []
    for a, b in zip(documents[::2], documents[1::2]):
        first = a[1].index(True)
        if a[0] == b[0]:
            continue
        sizes, room = [len(a[0]) - first, len(b[0]) - first], T - first + 1
        if sum(sizes) > room:
            if c["too_long"] == "drop":
                continue
            half = room // 2
            sizes = [half, half] if min(sizes) > half else [s if s == min(sizes) else room - min(sizes) for s in sizes]
        out.append([(x[0][:first + n], first) for x, n in zip((a, b), sizes)])
    return out


def logits_of(model, ids):
    return model(input_ids=torch.tensor([ids])).logits[0].double()


def tokens_loss(model, pieces, backward=False):
    n = sum(sum(m[1:]) for _, m in pieces)
    total = 0.0
    for ids, m in pieces:
        if any(m[1:]):
            labels = torch.tensor([i if l else -100 for i, l in zip(ids[1:], m[1:])])
            loss = torch.nn.functional.cross_entropy(logits_of(model, ids)[:-1], labels, reduction="sum") / n
            total += loss.item()
            if backward:
                loss.backward()
    return dict(loss=total, tokens=n)


def response_logp(model, ids, first):
    return logits_of(model, ids[:-1]).log_softmax(-1)[range(first - 1, len(ids) - 1), ids[first:]].sum()


def pairs_loss(model, reference, pairs, c, backward=False):
    figures = dict(loss=0.0, chosen=0.0, rejected=0.0, accuracy=0.0)
    for pair, ref in zip(pairs, reference):
        rewards = [c["beta"] * (response_logp(model, *x) - w) for x, w in zip(pair, ref)]
        margin, e = rewards[0] - rewards[1], c["smoothing"]
        loss = -((1 - e) * torch.nn.functional.logsigmoid(margin) + e * torch.nn.functional.logsigmoid(-margin)) / len(pairs)
        if backward:
            loss.backward()
        figures["loss"] += loss.item()
        for k, v in dict(chosen=rewards[0], rejected=rewards[1], accuracy=rewards[0] > rewards[1]).items():
            figures[k] += float(v.detach()) / len(pairs)
    return figures


def rate_at(i, c):
    """The learning rate of step i, counted from 0: torchtitan's linear_warmup_stable_decay, transformers' get_*_schedule."""
    n, w, lr, low = c["steps"], c["warmup"], c["lr"], c["min_lr"]
    if i < w:
        return lr * (i / w if c["warmup_like"] == "transformers" else (i + 1) / w)
    if c["schedule"] == "constant":
        return lr
    decay = c["decay_steps"] or (max(1, n // 10) if c["schedule"] == "wsd" else n - w)
    begin = n - decay if c["schedule"] == "wsd" else w
    p = min(max(i - begin, 0) / decay, 1)
    return low + (lr - low) * (.5 * (1 + math.cos(math.pi * p)) if c["schedule"] == "cosine" else 1 - p)


def draw_adapter(r, base, folder):
    n = base.config.num_hidden_layers
    targets = r.choice([["q_proj", "v_proj"], "all-linear", r.sample(MODULES, 3), r".*\.(q|o|down)_proj", r"model\.layers\.1\..*_proj"])
    more = dict(use_rslora=r.random() < .5)
    if not isinstance(targets, str):
        more.update(r.choice([{}, dict(rank_pattern={targets[0]: 2}, alpha_pattern={"layers.0.self_attn." + targets[0]: 3}),
                              dict(layers_to_transform=[n - 1]), dict(exclude_modules=[targets[-1]])]))
    model = get_peft_model(base, LoraConfig(r=r.choice([1, 3, 4]), lora_alpha=r.choice([2, 8, 5]), target_modules=targets, task_type="CAUSAL_LM", **more))
    for name, w in model.named_parameters():
        if "lora_B" in name:
            w.data = torch.randn_like(w) * .05
    model.save_pretrained(folder)
    return f"{targets} {more}"


def run(c, config, folder, name, layout, more):
    ranks = math.prod(layout.get(k, 1) for k in ("data", "tensor", "pipeline", "context"))
    config = json.loads(json.dumps(config))
    config["parallel"] = dict(layout)
    config["training"].update(more)
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(config))
    start = [] if ranks == 1 else ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(ranks)]
    p = subprocess.run([*start, c["drover"], "train", path], capture_output=True, text=True, timeout=600)
    if p.returncode not in (0, 3):
        raise RuntimeError(f"{name} {layout}: {p.stderr[-1500:]}")
    return p.stderr


def draw(r, drover):
    kind = r.choice(["documents", "stream", "examples", "examples", "labelled", "pairs", "pairs"])
    row = 4 * r.randint(2, 16)
    steps = r.choice([STEPS, 7, 23, 60])
    schedule = r.choice(["cosine", "linear", "wsd", "constant"])
    warmup_key = r.choice([None, ("warmup_steps", r.choice([0, 2, 3])), ("warmup_ratio", r.choice([.05, .1, .34]))])
    warmup = min(100, steps // 10) if warmup_key is None else warmup_key[1] if warmup_key[0] == "warmup_steps" else math.ceil(steps * warmup_key[1])
    lr = r.choice([1e-2, 3e-3])
    pack = dict(documents="documents", stream="stream", examples="examples", labelled=r.choice(["documents", "stream"]), pairs="examples")[kind]
    loss = r.choice(["auto", "responses", "last", "all"]) if kind in ("examples", "labelled") else "auto"
    return dict(drover=drover, kind=kind, row=row, steps=steps, schedule=schedule, warmup_key=warmup_key, warmup=warmup, lr=lr, pack=pack,
                loss=loss if kind in ("examples", "labelled") else "all", min_lr=r.choice([0, lr / 10]), warmup_like=r.choice(["torchtitan", "transformers"]),
                decay_steps=r.choice([0, 0, 2]) if schedule != "constant" else 0, too_long=r.choice(["truncate", "drop"]), lora=r.random() < .35,
                beta=r.choice([.1, .7]), smoothing=r.choice([0, .2]), betas=r.choice([[.9, .95], [.9, .999], [0, .5]]), eps=r.choice([1e-3, 1e-4]),
                weight_decay=r.choice([0, .1, 3.0]), decay_norms=r.random() < .3, clip=r.choice([0, 1.0, .05]), micro=r.choice([1, 1, 2, 3]),
                recompute=r.choice(["none", "selective", "full"]), layouts=[r.choice(LAYOUTS), r.choice(LAYOUTS)], stop=r.choice([1, 2, 3]))


def build(c, documents, folder, name):
    if c["kind"] == "pairs":
        words = lambda ids: "".join(LETTERS[i - 2] for i in ids if i > 1)
        records = [dict(prompt=words(a[0][:a[1].index(True)]), chosen=words(a[0][a[1].index(True):]), rejected=words(b[0][b[1].index(True):]))
                   for a, b in zip(documents[::2], documents[1::2])]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in records))
        command = ["--preference", "--template", "none", "--input", folder / f"{name}.jsonl"]
    else:
        columns = dict(input_ids=[ids for ids, _ in documents])
        if c["kind"] != "documents" and c["kind"] != "stream":
            columns["labels"] = [[i if l else -100 for i, l in zip(ids, ls)] for ids, ls in documents]
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{name}.parquet")
        command = [*(["--sft"] if "labels" in columns else []), "--input", folder / f"{name}.parquet"]
    p = subprocess.run([c["drover"], "data", "build", *command, "--tokenizer", folder / "tok", "--out", folder / name], capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(p.stderr)


def compare(r, drover, folder):
    c = draw(r, drover)
    write_tokenizer(folder / "tok")
    model = draw_model(r)
    model.save_pretrained(folder / "model")
    train, valid = draw_documents(r, c["kind"], c["row"]), draw_documents(r, c["kind"], c["row"])
    build(c, train, folder, "train")
    build(c, valid, folder, "valid")
    if c["loss"] == "auto":
        c["loss"] = "responses"
    lora = ""
    if c["lora"]:
        lora = draw_adapter(r, model, folder / "adapter")
    double = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float64, attn_implementation="eager")
    if c["kind"] == "pairs":
        parts = [pairs_of(x, c) for x in (train, valid)]
        with torch.no_grad():
            references = [[[response_logp(double, *x) for x in pair] for pair in part] for part in parts]
        loss_of = lambda which, backward=False: pairs_loss(double, references[which], parts[which], c, backward)
    else:
        parts = [pieces_of(x, c) for x in (train, valid)]
        loss_of = lambda which, backward=False: tokens_loss(double, parts[which], backward)
    if not parts[0] or not parts[1] or (c["kind"] != "pairs" and not all(any(any(m[1:]) for _, m in p) for p in parts)):
        return None
    if c["lora"]:
        double = PeftModel.from_pretrained(double, folder / "adapter", is_trainable=True).double()
    config = dict(model={"from": str(folder / "model")}, tokenizer=str(folder / "tok"),
                  data=dict(train=str(folder / "train"), valid=str(folder / "valid"), sequence_length=c["row"], pack=c["pack"], too_long=c["too_long"]),
                  training=dict(steps=c["steps"], precision="fp32", eval_every=STEPS, recompute=c["recompute"], threads=1, objective="dpo" if c["kind"] == "pairs" else "tokens"),
                  optimizer=dict(lr=c["lr"], betas=tuple(map(float, c["betas"])), eps=c["eps"], weight_decay=c["weight_decay"], decay_norms=c["decay_norms"], clip_grad_norm=c["clip"]),
                  schedule=dict(type=c["schedule"], min_lr=c["min_lr"] if c["schedule"] != "constant" else 0, warmup_like=c["warmup_like"], decay_steps=c["decay_steps"]), run_dir=str(folder / "run"))
    if c["warmup_key"]:
        config["schedule"][c["warmup_key"][0]] = c["warmup_key"][1]
    if c["kind"] in ("examples", "labelled"):
        config["data"]["loss"] = c["loss"]
    if c["kind"] == "pairs":
        config["dpo"] = dict(beta=c["beta"], label_smoothing=c["smoothing"])
        del config["data"]["pack"]
    if c["lora"]:
        config["lora"] = dict(adapter=str(folder / "adapter"))
    log = run(c, dict(config, run_dir=str(folder / "count")), folder, "count", {}, dict(global_batch_size=1, micro_batch_size=1, stop_at_step=1))
    rows = int(re.search(r"data: (\d+) rows of", log)[1])
    config["training"].update(global_batch_size=rows * 2 * c["micro"], micro_batch_size=c["micro"])
    run(c, config, folder, "first", c["layouts"][0], dict(stop_at_step=c["stop"]))
    run(c, config, folder, "second", c["layouts"][1], dict(stop_at_step=STEPS))
    lines = [json.loads(x) for x in open(folder / "run/metrics.jsonl")]
    steps, evaluations = [x for x in lines if "grad_norm" in x], [x for x in lines if "val_loss" in x]

    trained = [(n, p) for n, p in double.named_parameters() if p.requires_grad]
    groups = [dict(params=[p for _, p in trained if p.dim() == d], weight_decay=c["weight_decay"] if d == 2 or c["decay_norms"] else 0) for d in (1, 2)]
    adamw = torch.optim.AdamW([g for g in groups if g["params"]], lr=c["lr"], betas=tuple(map(float, c["betas"])), eps=c["eps"])
    bad = []

    def check(what, got, wanted, bound=2e-4):
        if not abs(got - wanted) <= bound * max(abs(wanted), 1e-2):
            bad.append(f"{what}: drover {got:.8g}, torch {wanted:.8g}")

    def check_evaluation(figures, step):
        found = [x for x in evaluations if x["step"] == step]
        if not found:
            return bad.append(f"no evaluation at step {step}")
        with torch.no_grad():
            wanted = loss_of(1)
        check(f"val_loss at {step}", found[0]["val_loss"], wanted["loss"])
        if "tokens" in wanted:
            check(f"val_tokens at {step}", found[0]["val_tokens"], wanted["tokens"], 0)
        else:
            check(f"val_pairs at {step}", found[0]["val_pairs"], len(parts[1]), 0)

    check_evaluation(evaluations, 0)
    if [x["step"] for x in steps] != list(range(1, STEPS + 1)):
        bad.append(f"steps {[x['step'] for x in steps]}")
    for i, line in enumerate(steps):
        adamw.zero_grad()
        wanted = loss_of(0, True)
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in trained], c["clip"] or math.inf, foreach=False).item()
        for g in adamw.param_groups:
            g["lr"] = rate_at(i, c)
        adamw.step()
        check(f"loss at {i + 1}", line["loss"], wanted["loss"])
        check(f"grad_norm at {i + 1}", line["grad_norm"], norm, 1e-3)
        check(f"lr at {i + 1}", line["lr"], rate_at(i, c), 1e-5)
        for k, key in dict(chosen="rewards/chosen", rejected="rewards/rejected").items():
            if k in wanted:
                check(f"{key} at {i + 1}", line[key], wanted[k], 1e-3)
    check_evaluation(evaluations, STEPS)
    saved = load_file(folder / f"run/checkpoints/step-{STEPS:06d}" / ("adapter_model.safetensors" if c["lora"] else "model.safetensors"))
    weights = get_peft_model_state_dict(double) if c["lora"] else dict(double.named_parameters())
    if saved.keys() != weights.keys():
        bad.append(f"tensors: {sorted(saved.keys() ^ weights.keys())[:4]}")
    for k in saved.keys() & weights.keys():
        difference = (saved[k].double() - weights[k].detach()).abs().max().item()
        if difference > 5e-3 * c["lr"]:
            bad.append(f"{k}: differs by {difference:.2g}")
    shown = {k: v for k, v in c.items() if k not in ("drover",)}
    return bad, f"{model.config.model_type} {shown} {lora} rows {rows}"


def main():
    drover, runs, seed = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20, int(sys.argv[3]) if len(sys.argv) > 3 else 1
    only = int(sys.argv[4]) if len(sys.argv) > 4 else None
    n_bad = 0
    for i in range(only or 0, only + 1 if only is not None else runs):
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = compare(random.Random(f"{seed}:{i}"), drover, pathlib.Path(folder))
            except RuntimeError as e:
                found = [str(e)], ""
        if found is None:
            continue
        n_bad += bool(found[0])
        print(f"{'BAD' if found[0] else 'ok '} {seed}:{i} {found[1]}", *found[0][:8], sep="\n      ", flush=True)
    print(f"{runs} runs, {n_bad} differ")
    sys.exit(n_bad > 0)


main()
