#!/usr/bin/env python3
"""Makes tests/golden/beside.jsonl: tokenizer folders whose side files add to tokenizer.json or disagree with it
(tokenizer_config.json, special_tokens_map.json, added_tokens.json), and the ids that AutoTokenizer has for texts and roles.
A case: base (a folder of tests/golden/tokenizers), added (in place of tokenizer.json's added tokens; null: its own), files,
texts, ids, roles (bos, eos, pad, unk; -1: none). More of them for a night: build/tests/test_tokens_beside FILE reads any such file.

    python tools/golden_beside.py tests/golden/beside.jsonl [SEED [CASES]]
"""
import json, pathlib, random, shutil, sys, tempfile
from transformers import AutoTokenizer

TOKENIZERS = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/tokenizers"
BASES = ["gpt2", "qwen2", "sentencepiece", "metaspace_first"]
ROLES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
NEW = ["<|tool|>", "<a>", "<|im_start|>", "[PAD]", "you", " x", "größe", "<|long|><a>"]
SPACE = ["", " ", "  ", "\n", "\t", "\u00a0", " \u2003\n", "_", "x", "\u0301"]


def token(rng, text):
    flag = lambda p: rng.random() < p
    return dict(content=text, lstrip=flag(.3), rstrip=flag(.3), normalized=flag(.3), single_word=flag(.15), special=flag(.7))


def one_case(rng):
    base = rng.choice(BASES)
    tokenizer = json.loads((TOKENIZERS / base / "tokenizer.json").read_text())
    own, vocab = tokenizer["added_tokens"], list(tokenizer["model"]["vocab"])
    added = None
    if rng.random() < .4:
        added = [dict(token(rng, t["content"]), id=t["id"], special=True) for t in own]
        added += [dict(token(rng, t), id=len(vocab) + i) for i, t in enumerate(rng.sample(NEW, rng.randrange(3)))
                  if t not in (o["content"] for o in own)]
    own = added or own
    words = [t["content"] for t in own] + NEW + [v for v in rng.sample(vocab, 3) if v.isascii() and len(v) > 1]
    pick = lambda: rng.choice(words)
    typed = lambda: dict(token(rng, pick()), __type="AddedToken")
    config, files = dict(tokenizer_class="PreTrainedTokenizerFast"), {}
    for role in rng.sample(ROLES, rng.randrange(4)):
        config[role] = rng.choice([pick(), pick(), typed(), None])
    if rng.random() < .2:
        config["tool_token"] = rng.choice([pick(), typed()])
    for key in "additional_special_tokens", "extra_special_tokens":
        if rng.random() < .25:
            config[key] = rng.choice([[pick() for _ in range(rng.randrange(3))], [typed(), pick()], None])
    if rng.random() < .1:
        config["extra_special_tokens"] = {"image_token": pick()}
    if rng.random() < .6:
        config["added_tokens_decoder"] = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in own if rng.random() < .8}
        for _ in range(rng.randrange(3)):
            text = pick()
            if rng.random() < .3 or all(t["content"] != text for t in config["added_tokens_decoder"].values()):
                config["added_tokens_decoder"][str(rng.choice([len(vocab) + rng.randrange(9), rng.randrange(5)]))] = token(rng, text)
    if rng.random() < .1:
        config["split_special_tokens"] = True
    files["tokenizer_config.json"] = config
    if rng.random() < .4:
        files["special_tokens_map.json"] = {role: rng.choice([pick(), {k: v for k, v in token(rng, pick()).items() if k != "special"}])
                                            for role in rng.sample(ROLES, rng.randrange(4))}
        if rng.random() < .3:
            files["special_tokens_map.json"][rng.choice(["additional_special_tokens", "extra_special_tokens"])] = [pick(), pick()]
    if rng.random() < .3:
        ids = rng.choice([2, 12])  # few ids: several texts have one
        files["added_tokens.json"] = {pick(): len(vocab) + rng.randrange(ids) for _ in range(rng.randrange(5))}
    def text():
        return "".join(rng.choice(SPACE) + rng.choice([pick(), pick(), "Hi", "the fox", "."]) for _ in range(rng.randrange(1, 9)))
    return dict(base=base, added=added, files=files, texts=[text() for _ in range(6)])


def answer(case, folder):
    tokenizer = json.loads((TOKENIZERS / case["base"] / "tokenizer.json").read_text())
    if case["added"] is not None:
        tokenizer["added_tokens"] = case["added"]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    for name, value in case["files"].items():
        (folder / name).write_text(json.dumps(value))
    t = AutoTokenizer.from_pretrained(folder)
    case["ids"] = [t(text, add_special_tokens=False)["input_ids"] for text in case["texts"]]
    case["roles"] = [-1 if i is None else i for i in (t.bos_token_id, t.eos_token_id, t.pad_token_id, t.unk_token_id)]
    return case


def main(out, seed=1, n=80):
    rng, made, failed = random.Random(seed), 0, 0
    with open(out, "w", encoding="utf-8") as f:
        while made < n:
            case = one_case(rng)
            folder = pathlib.Path(tempfile.mkdtemp())
            try:
                f.write(json.dumps(answer(case, folder), ensure_ascii=False) + "\n")
                made += 1
            except (TypeError, ValueError) as e:  # what AutoTokenizer does not open
                failed += 1
            shutil.rmtree(folder)
    print(f"{made} cases, {failed} that AutoTokenizer does not open")


if __name__ == "__main__":
    main(sys.argv[1], *(int(a) for a in sys.argv[2:4]))
