#!/usr/bin/env python3
"""Draws random tokenizers, odd ones on purpose, and compares encoding and decoding by drover and by Hugging Face tokenizers: raw
characters in byte-level vocabularies, bytes without a token, unknown tokens, byte fallback, ids with gaps, added tokens with
spaces or with ids of their own, decoders that are missing or not whole, keys that share an id, duplicate merges. For each it also
draws a mixture: normalizers, pre-tokenizers (split patterns of golden_split_patterns.py among them) and post-processors put
together at random, added tokens with odd ids; these may be refused, by name and in one line, but what is taken has the same ids.
Prints the seed and the first differences of each kind; exit 1 if there was one.

    python tools/compare_random_tokenizers.py build/drover [--rounds 200] [--seed 1] [--keep DIR]
    python tools/compare_random_tokenizers.py --golden tests/golden/tokenizers/odd.jsonl   (tests/test_odd_tokenizers.c)
"""
import argparse, json, os, pathlib, random, subprocess, sys, tempfile

os.environ["RUST_BACKTRACE"] = "0"  # Hugging Face's panics in one line
from tokenizers import Tokenizer

import golden_split_patterns as patterns

PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
CHAR = {b: chr(b) for b in PRINTABLE}
CHAR.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in PRINTABLE)})
WORDS = ["the", "The", " the", "  ", " a", "hello", "don't", "é", "naïve", "日本", "😀", "1984", "x1", "\n", "\t", "\r\n", ".", "...", " (", "<s>", "<x y>",
         "<0x41>", "\u2581", " t", "Ġ", "ab", "abab", "\x00", "\x7f", "\u00a0", "<unk>", "</s>"]


def texts(rng):
    yield from ["", " ", "the the", "<s>the<x y> a", "a b"]
    for _ in range(24):
        yield "".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 12)))


BLOCKS = [(0, 0x20), (0x20, 0x7F), (0x7F, 0x250), (0x300, 0x370), (0x590, 0x700), (0x900, 0xE80), (0x1100, 0x1200), (0x1AB0, 0x1B00), (0x1DC0, 0x1F00),
          (0x2000, 0x2070), (0x2E80, 0x3130), (0xAC00, 0xAC80), (0xD7A0, 0xD800), (0xE000, 0xE010), (0xF900, 0xFB50), (0xFE00, 0xFE30), (0xFEFF, 0x10000),
          (0x10000, 0x10200), (0x10A00, 0x11500), (0x16100, 0x16E00), (0x1D100, 0x1D200), (0x1E000, 0x1E950), (0x1F1E6, 0x1F200), (0x1F3F0, 0x1F680),
          (0x20000, 0x20010), (0x31350, 0x31360), (0xE0000, 0xE0200), (0x10FFF0, 0x110000), (0, 0xD800), (0xE000, 0x110000)]


def code_points(rng):
    """Text of any code points but surrogates: unassigned ones, marks in odd orders, joiners, letters from right to left, controls."""
    text = ""
    for _ in range(rng.randrange(1, 10)):
        block = rng.choice(BLOCKS)
        text += "".join(chr(rng.randrange(*block)) for _ in range(rng.choice([1, 1, 2, 5])))
        text += rng.choice(["", "", " ", "\u200d", "a", "1", "\n", "  ", "\u0301", "\u0323", "<s>", "'s"])
    return text


def add_merges(rng, vocab, alphabet, n):
    """Merges of symbols that are there, results entered in the vocabulary; now and then of raw ones."""
    merges, symbols = [], list(alphabet)
    for _ in range(n if symbols else 0):
        x, y = rng.choice(symbols), rng.choice(symbols)
        if len(x + y) > 12 or [x, y] in merges:
            continue
        vocab.setdefault(x + y, len(vocab))
        symbols += [x + y] * 3
        merges.append([x, y])
    return merges


def spread(rng, vocab):
    """Ids with gaps."""
    ids = sorted(rng.sample(range(2 * len(vocab)), len(vocab)))
    return {k: i for k, i in zip(vocab, ids)}


def byte_level(rng):
    missing = set(rng.sample(range(256), rng.choice([0, 0, 3, 60])))
    if rng.random() < .3:
        missing |= {32}
    alphabet = [CHAR[b] for b in range(256) if b not in missing]
    vocab = {c: i for i, c in enumerate(alphabet)}
    raw = rng.sample([" ", " t", " the", "\n", "\u00a0", "日", "日本", "\\x80", "a b", "\t", "é日", "\x7f", " a"], rng.randrange(8))
    for text in raw:
        vocab.setdefault(text, len(vocab))
    wanted = [CHAR[b] for w in WORDS for b in w.encode() if b not in missing]
    merges = add_merges(rng, vocab, wanted + (raw if rng.random() < .3 else []), rng.choice([0, 30, 200]))
    if rng.random() < .3:
        vocab.update({f"<0x{b:02X}>": len(vocab) + i for i, b in enumerate(rng.sample(range(256), rng.choice([256, 200])))})
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                 fuse_unk=rng.random() < .5, byte_fallback=rng.random() < .4, ignore_merges=rng.random() < .3, vocab=vocab, merges=merges)
    if rng.random() < .3:
        vocab.setdefault("<unk>", len(vocab))
        model["unk_token"] = "<unk>"
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=rng.random() < .8)
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=level, post_processor=level,
                decoder=level, model=model)


def sentencepiece(rng):
    alphabet = ["▁", *rng.sample(list("abcdehlnoptvy189.'()xTĠ"), 20), "é", "日"]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    some = rng.choice([256, 256, 128, 0])
    vocab.update({f"<0x{b:02X}>": 3 + i for i, b in enumerate(sorted(rng.sample(range(256), some)))})
    for c in alphabet + rng.sample([" ", " t", "a b", "\n"], rng.randrange(3)):
        vocab.setdefault(c, len(vocab))
    merges = add_merges(rng, vocab, alphabet, rng.choice([0, 30, 200]))
    replace = dict(type="Replace", pattern=dict(String=" "), content="▁")
    back = dict(type="Replace", pattern=dict(String="▁"), content=" ")
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[],
                normalizer=dict(type="Sequence", normalizers=[dict(type="Prepend", prepend="▁"), replace]), pre_tokenizer=None, post_processor=None,
                decoder=dict(type="Sequence", decoders=[back, dict(type="ByteFallback"), dict(type="Fuse"), dict(type="Strip", content=" ", start=1, stop=0)]),
                model=dict(type="BPE", dropout=None, unk_token=rng.choice([None, "<unk>", "<unk>"]), continuing_subword_prefix=None, end_of_word_suffix=None,
                           fuse_unk=rng.random() < .5, byte_fallback=rng.random() < .7, ignore_merges=False, vocab=vocab, merges=merges))


def make(rng):
    t = rng.choice([byte_level, byte_level, sentencepiece])(rng)
    vocab = t["model"]["vocab"]
    if rng.random() < .3:
        vocab = t["model"]["vocab"] = spread(rng, vocab)
    top = max(vocab.values()) + 1
    for text in rng.sample(["<s>", "<x y>", "</s>", " the", "日本", "the", "Ġ", "\n"], rng.randrange(5)):
        file_id = vocab.get(text, top)
        top += text not in vocab
        t["added_tokens"].append(dict(id=file_id, content=text, single_word=False, lstrip=False, rstrip=False, normalized=rng.random() < .3,
                                      special=rng.random() < .6))
    t["added_tokens"].sort(key=lambda a: a["id"])
    return t


def make_odder(seed):
    """make, and from seed 19 on (the golden file's first lines are older) now and then without a decoder, with a part of one, or
    with keys that share an id; from 31 on with merges that stand twice. Returns the ids whose text Hugging Face takes from any of
    its keys, too."""
    t, rng, shared = make(random.Random(seed)), random.Random(-seed - 1), set()
    if seed < 19:
        return t, shared
    parts = t["decoder"].get("decoders")
    if rng.random() < .3:
        t["decoder"] = None
    elif rng.random() < .3:
        t["decoder"] = dict(type="Sequence", decoders=[parts[i] for i in sorted(rng.sample(range(3), rng.randrange(3)))]) if parts else dict(type="Fuse")
    vocab = t["model"]["vocab"]
    for key in rng.sample(sorted(vocab), rng.choice([0, 0, 1, 12])):
        vocab[key] = rng.choice(list(vocab.values()))
    merges = t["model"]["merges"]
    if seed > 30 and merges and rng.random() < .5:
        for merge in rng.choices(merges, k=rng.choice([1, 8])):
            merges.insert(rng.randrange(len(merges) + 1), merge)
    ids = list(vocab.values())
    return t, {i for i in ids if ids.count(i) > 1}


def any_part(rng, parts, key):
    """None, one of the parts, or a sequence of up to three."""
    n = rng.choice([0, 1, 1, 2, 2, 3])
    chosen = [rng.choice(parts)(rng) for _ in range(n)]
    if n == 0:
        return None
    return chosen[0] if n == 1 and rng.random() < .7 else {"type": "Sequence", key: chosen}


NORMALIZERS = [
    lambda r: dict(type="Prepend", prepend=r.choice(["\u2581"] * 15 + [" ", "x"])),
    lambda r: dict(type="Replace", pattern=r.choice([dict(String=" ")] * 15 + [dict(String="a"), dict(Regex=" +")]),
                   content=r.choice(["\u2581"] * 15 + ["", "_"])),
    lambda r: dict(type=r.choice(["NFC"] * 15 + ["NFKC", "NFD", "Lowercase"])),
]
BEHAVIORS = ["Isolated"] * 20 + ["Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
SPLIT = lambda r: dict(type="Split", pattern=dict(Regex=r.choice([r.choice(patterns.KNOWN), r.choice(patterns.ODD), patterns.pattern(r)])),
                       behavior=r.choice(BEHAVIORS), invert=r.random() < .04)
LEVEL = lambda r: dict(type="ByteLevel", add_prefix_space=r.random() < .1, trim_offsets=True, use_regex=r.random() < .5)
PRE_TOKENIZERS = [
    SPLIT, SPLIT, LEVEL, LEVEL,
    lambda r: dict(type="Metaspace", replacement=r.choice(["\u2581"] * 15 + ["_"]), prepend_scheme=r.choice(["always", "first", "never"]),
                   split=r.random() < .6),
    lambda r: dict(type="Digits", individual_digits=r.random() < .5),
    lambda r: r.choice([dict(type=x) for x in ["Whitespace", "WhitespaceSplit", "Punctuation", "BertPreTokenizer"]] +
                       [dict(type="Split", pattern=dict(String=x), behavior="Isolated", invert=False) for x in ["a", " ", "\u2581", "."]]),
]


def template(rng):
    text, token = dict(Sequence=dict(id="A", type_id=0)), dict(SpecialToken=dict(id="<s>", type_id=0))
    other = dict(Sequence=dict(id="B", type_id=0))
    single = rng.choice([[token, text], [text, token], [token, text, token], [text]] * 3 + [[text, text], [token], [text, token, text], [other], [text, other]])
    return dict(type="TemplateProcessing", single=single, pair=[text, other], special_tokens={"<s>": dict(id="<s>", ids=[rng.choice([0, 1, 2])], tokens=["<s>"])})


REGEX = lambda pattern: dict(type="Split", pattern=dict(Regex=pattern), behavior="Isolated", invert=False)
DIGITS = dict(type="Digits", individual_digits=True)
REPLACE, PREPEND = dict(type="Replace", pattern=dict(String=" "), content="\u2581"), dict(type="Prepend", prepend="\u2581")
CJK, TAIL = "[一-龥ࠀ-一가-퟿]+", r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CASES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
BYTE_FAMILIES = {  # what precedes ByteLevel (None: its own pattern), a normalizer, ignore_merges
    "gpt2": (None, None, False), "olmo": (None, "NFC", False), "smollm": ([DIGITS], None, False), "llama3": ([REGEX(CASES + r"\p{N}{1,3}|" + TAIL)], None, True),
    "qwen2": ([REGEX(CASES + r"\p{N}|" + TAIL)], "NFC", False), "o200k": ([REGEX(patterns.KNOWN[3])], None, True), "cl100k": ([REGEX(patterns.KNOWN[2])], None, False),
    "deepseek": ([REGEX("[\r\n]"), REGEX(r"\s?\p{L}+"), REGEX(r"\s?\p{P}+"), REGEX(CJK), DIGITS], None, False),
    "deepseek3": ([REGEX(r"\p{N}{1,3}"), REGEX("[一-龥\u3040-ゟ゠-ヿ]+"), REGEX(patterns.KNOWN[11])], None, False), "starcoder": ([DIGITS], None, False),
}
SPACE_FAMILIES = {  # normalizer, pre-tokenizer, whether the decoder strips a space
    "llama2": (dict(type="Sequence", normalizers=[PREPEND, REPLACE]), None, True), "yi": (dict(type="Sequence", normalizers=[REPLACE]), None, False),
    "mistral": (None, dict(type="Metaspace", replacement="\u2581", prepend_scheme="first", split=False), True),
    "gemma": (REPLACE, dict(type="Split", pattern=dict(String=" "), behavior="MergedWithPrevious", invert=False), False),
}
ODD_TOKENS = ["<s>", "</s>", "<x y>", "<s>a", "<", "the", " the", "a b", "日本", "é", "e\u0301", "\n", "\n\n", "  ", "\u2581", "\u2581\u2581", "\u00a0", "\u200d", "1", "19", "don't",
              "<0x41>", "\u0645\u0631", "x1", "'", "<|im_end|>", "[INST]", "Ġ", "Ġthe", "\x7f", "\u3000x", "x\u3000"]


def family(seed):
    """The settings of a family with a vocabulary of our own, and added tokens that overlap or take spaces."""
    rng = random.Random(f"family {seed}")
    if rng.random() < .65:
        t, (before, normalizer, ignores) = byte_level(rng), rng.choice(list(BYTE_FAMILIES.values()))
        level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=before is None or before == [DIGITS])
        t["pre_tokenizer"] = dict(type="Sequence", pretokenizers=[*before, level]) if before else level
        t["normalizer"] = normalizer and dict(type=normalizer)
        t["model"]["ignore_merges"] = ignores
    else:
        t, (t["normalizer"], t["pre_tokenizer"], strips) = sentencepiece(rng), rng.choice(list(SPACE_FAMILIES.values()))
        t["decoder"]["decoders"] = t["decoder"]["decoders"][:4 if strips else 3]
    vocab = t["model"]["vocab"]
    for text in rng.sample(ODD_TOKENS, rng.randrange(9)):
        flag = lambda p: rng.random() < p
        t["added_tokens"].append(dict(id=vocab.get(text, len(vocab)), content=text, single_word=flag(.2), lstrip=flag(.3), rstrip=flag(.3), normalized=flag(.4), special=flag(.5)))
    return t, set()


POST_PROCESSORS = [template, template, lambda r: dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)]


def mix(seed):
    """The tokenizer of a seed with some of its parts put together anew."""
    (t, shared), rng = make_odder(seed), random.Random(f"mixture {seed}")
    vocab = t["model"]["vocab"]
    if rng.random() < .4:
        t["normalizer"] = any_part(rng, NORMALIZERS, "normalizers")
    if t["pre_tokenizer"] and rng.random() < .5:  # as most files have it: patterns, then bytes
        t["pre_tokenizer"] = dict(type="Sequence", pretokenizers=[*(SPLIT(rng) for _ in range(rng.randrange(1, 3))), dict(LEVEL(rng), use_regex=False)])
    elif rng.random() < .7:
        t["pre_tokenizer"] = any_part(rng, PRE_TOKENIZERS, "pretokenizers")
    if rng.random() < .4:
        t["post_processor"] = any_part(rng, POST_PROCESSORS, "processors")
    for added in t["added_tokens"]:
        for flag in ["single_word", "lstrip", "rstrip"]:
            added[flag] = rng.random() < .02
    if t["added_tokens"] and rng.random() < .05:
        added = rng.choice(t["added_tokens"])
        added["id"] = rng.choice([None, str(added["id"]), -1, 1.5])
        if added["id"] == 1.5:
            del added["id"]
    if rng.random() < .1:
        t["truncation"] = dict(max_length=2, strategy="LongestFirst", stride=0, direction="Right")
    if rng.random() < .1:
        t["padding"] = dict(strategy=dict(Fixed=8), direction="Right", pad_to_multiple_of=None, pad_id=0, pad_type_id=0, pad_token=next(iter(vocab)))
    return t, shared


def drover(args, lines, directory):
    (directory / "input.jsonl").write_text("\n".join(lines) + "\n")
    run = subprocess.run([*args, "--tokenizer", directory, "--json-key", "text", "--input", directory / "input.jsonl"], capture_output=True,
                         encoding="utf-8", errors="replace")
    return ([json.loads(x) for x in run.stdout.split("\n")[:-1]], run.stderr) if run.returncode == 0 else (None, run.stderr)


def their_ids(text, all_texts):
    """Hugging Face's tokenizer and ids, or why there are none."""
    try:
        theirs = Tokenizer.from_str(text)
        theirs.no_truncation()  # transformers sets both anew with each call
        theirs.no_padding()
        return theirs, [theirs.encode(s).ids for s in all_texts]
    except BaseException as e:  # it panics on some texts
        return None, str(e)


def compare(seed, binary, directory, maker):
    rng = random.Random(seed)
    made, shared = maker(seed)
    (directory / "tokenizer.json").write_text(json.dumps(made))
    all_texts = [*texts(rng), *(code_points(rng) for _ in range(16))]
    theirs, want = their_ids(json.dumps(made), all_texts)
    got, err = drover([binary, "tokenizer", "encode"], [json.dumps(dict(text=s)) for s in all_texts], directory)
    if got is None:
        lines = err.splitlines()
        named = all(x.startswith("warning: ") for x in lines[:-1]) and lines[-1].startswith("drover: ") and "tokenizer.json" in lines[-1]
        return f"refused: {err.strip()}" if named else f"answered in another way: {err.strip()}"
    if theirs is None and "bad split" in want:  # Hugging Face panics where a token takes the white space of another
        return f"panics: {want}"
    if theirs is None:
        return f"taken, though Hugging Face refuses it: {want}"
    for s, x, y in zip(all_texts, got, want):
        if x != y:
            return f"ids: {s!r}: {x}, Hugging Face {y} {[theirs.id_to_token(i) for i in y]}"
    if maker is mix:
        return "same"
    known = [i for i in range(theirs.get_vocab_size(True) * 2) if theirs.id_to_token(i) is not None and i not in shared]
    lists = [x for x in want if not shared & set(x)] + [[rng.choice(known) for _ in range(8)] for _ in range(20)]
    texts_of = [theirs.decode(x, skip_special_tokens=False) for x in lists]
    got, err = drover([binary, "tokenizer", "decode"], [json.dumps(x) for x in lists], directory)
    if got is None:
        return f"decode refused: {err.strip()}"
    for x, mine, y in zip(lists, got, texts_of):
        mine = mine["text"]
        if mine != y:
            return f"text of {[theirs.id_to_token(i) for i in x]}: {mine!r}, Hugging Face {y!r}"
    return "same"


def torchtitan():
    """As torchtitan's tests/assets/tokenizer: ASCII and words written raw, and no merges."""
    t = byte_level(random.Random(0))
    words = [chr(b) for b in range(128)] + [f"\\x{b:02x}" for b in range(128, 256)] + [" t", "he", " the", ".\n", "  "]
    t["model"].update(vocab={w: i for i, w in enumerate(words)}, merges=[], unk_token=None, byte_fallback=False, ignore_merges=False)
    return t


def doubled():
    """Merges that stand twice, and merges of keys that share an id: of each pair of ids the last one counts."""
    t = byte_level(random.Random(0))
    vocab = {CHAR[b]: b for b in range(256)}
    merges = ["t h", "h e", "a b", "b a", "t h", "a y", "l o", "e l", "l l", "e l", "l o", "ll o", "th e", "a b"]
    for merge in merges:
        vocab.setdefault(merge.replace(" ", ""), len(vocab))
    vocab["y"] = vocab["b"]
    t["model"].update(vocab=vocab, merges=[m.split(" ") for m in merges], unk_token=None, byte_fallback=False, ignore_merges=False)
    return t


FAMILY_SEEDS = [111, 119, 131, 168, 169, 182, 185, 195]  # of the golden file: each kind of family, and an added token in the white space of another


def golden(path):
    """Tokenizers, one a line, with texts, their ids, and what the ids of those texts and random ones decode to."""
    with open(path, "w") as f:
        for seed in [*range(32), *FAMILY_SEEDS]:
            rng = random.Random(seed)
            made, shared = {0: lambda: (torchtitan(), set()), 31: lambda: (doubled(), {ord("b")})}.get(seed, lambda: (family if seed > 31 else make_odder)(seed))()
            if seed and seed < 19:
                make(rng)  # as the first lines were made
            theirs = Tokenizer.from_str(json.dumps(made))
            known = [i for i in range(theirs.get_vocab_size(True) * 2) if theirs.id_to_token(i) is not None and i not in shared]
            odd_texts = [*texts(rng), *(code_points(rng) for _ in range(16 * (seed > 31)))]
            cases = [dict(text=s, ids=theirs.encode(s).ids) for s in odd_texts]
            lists = [c["ids"] for c in cases if not shared & set(c["ids"])] + [[rng.choice(known) for _ in range(8)] for _ in range(20)]
            decoded = [dict(ids=x, text=theirs.decode(x, skip_special_tokens=False)) for x in lists]
            f.write(json.dumps(dict(seed=seed, tokenizer=json.dumps(made), encode=cases, decode=decoded), separators=(",", ":")) + "\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("drover", nargs="?")
    p.add_argument("--golden")
    p.add_argument("--rounds", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", type=pathlib.Path)
    a = p.parse_args()
    if a.golden:
        return golden(a.golden)
    differ = False
    for maker, fine in [(make_odder, {"same"}), (mix, {"same", "refused"}), (family, {"same", "panics"})]:
        kinds = {}
        with tempfile.TemporaryDirectory() as tmp:
            for i in range(a.seed, a.seed + a.rounds):
                directory = pathlib.Path(tmp)
                if a.keep:
                    (directory := a.keep / maker.__name__ / str(i)).mkdir(parents=True, exist_ok=True)
                result = compare(i, a.drover, directory, maker)
                kinds.setdefault(result.split(":")[0][:8], []).append((i, result))
        differ |= bool(set(kinds) - fine)
        print(f"{maker.__name__}:")
        for kind, results in kinds.items():
            print(f"  {kind}: {len(results)}")
            for i, result in results[:6] if kind != "same" else []:
                print(f"    seed {i}: {result[:600]}")
    sys.exit(differ)


if __name__ == "__main__":
    main()
