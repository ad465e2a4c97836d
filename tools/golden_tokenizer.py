#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/: small tokenizers trained by Hugging Face tokenizers, and for each a
cases.jsonl with texts, the ids it gives and the text it decodes them to. Needs the Python package
tokenizers; the tests need no Python.

    python tools/golden_tokenizer.py tests/golden/tokenizers [NAME ...]
"""
import json, pathlib, random, sys, unicodedata
import tokenizers
from tokenizers import Tokenizer, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
OTHER = r"\p{Lu}?\p{Ll}+|\p{N}+|[^\p{L}\p{N}]+"  # goes through PCRE2


def corpus():
    rng = random.Random(7)
    words = ("the of and to in is was for that with as his on be at by had it from are this not they she he "
             "which one you were all her there would their we him been has when who will no more if out so "
             "what up into don't can't I'll we've it's größe naïve cœur éléphant Москва привет 日本 東京 "
             "x1 42 1984 3.14 foo_bar() if(x==y) -> <= \t \n\n").split(" ")
    return [" ".join(rng.choice(words) for _ in range(60)) for _ in range(400)]


def texts():
    rng = random.Random(11)
    yield from ["", " ", "  ", "\n", "\r\n", " \n \n", "a", "Hello world", " Hello  world ", "don't DON'T I'll we'Ve ſ'ſ '\u017f", "''s 's'",
        "tabs\tand\nlines\r\n\r\nend  ", "   leading", "trailing   ", "a  b   c    d", "1234567890 12 3", "x1y22z333", "....!!!???  ...",
        "<|endoftext|>", "a<|endoftext|>b <|endoftext|><|endoftext|>", "<|endoftext", "日本語のテキスト", "Привет, мир! Ещё", "😀👍🏽👨‍👩‍👧", "e\u0301 é",
        "\u00a0nbsp\u2003em\u3000ideo", "\u200bzero\u200dwidth", "مرحبا بالعالم", "नमस्ते दुनिया", "ไทยภาษา", "\x00\x01\x7f", "\ufeffbom", "①②③ Ⅳ ½ ²",
        "a" * 300, " " * 100, "\n" * 50, "ab" * 200 + " end", "▁under▁ score", "<0x41> <s> </s> <unk>"]
    yield from corpus()[:5]
    assigned = [chr(c) for c in range(0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    for i in range(60):
        yield "".join(rng.choice(assigned) for _ in range(40))
    for i in range(60):
        yield "".join(rng.choice("ab Z9'.\n\t\r é日 ") for _ in range(60))
    for i in range(20):
        yield bytes(rng.randrange(256) for _ in range(80)).decode("utf-8", "replace")


def byte_level(pre):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=700, special_tokens=["<|endoftext|>"], show_progress=False,
        min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def qwen2():
    """As Qwen's: NFC, digits one by one, and its own special tokens, which nothing puts around a text."""
    t = byte_level(split(QWEN2))
    t.normalizer = normalizers.NFC()
    t.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return t


def sentencepiece():
    base = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=500, show_progress=False, min_frequency=2, max_token_length=12))
    j = json.loads(t.to_str())
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + [k for k, _ in sorted(j["model"]["vocab"].items(), key=lambda x: x[1])]
    j["model"].update(vocab={k: i for i, k in enumerate(tokens)}, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    t = Tokenizer.from_str(json.dumps(j))
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


def metaspace(scheme, split):
    """The same vocabulary with a Metaspace pre-tokenizer and decoder instead of normalizers."""
    j = json.loads(sentencepiece().to_str())
    j["normalizer"] = None
    j["pre_tokenizer"] = dict(type="Metaspace", replacement="▁", prepend_scheme=scheme, split=split)
    j["decoder"] = dict(type="Sequence", decoders=[dict(type="ByteFallback"),
        dict(type="Metaspace", replacement="▁", prepend_scheme=scheme, split=split)])
    return Tokenizer.from_str(json.dumps(j))


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def main(out, names):
    made = {"gpt2": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "llama3": byte_level(split(LLAMA3)), "qwen2": qwen2(), "other": byte_level(split(OTHER)),
        "digits": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                      pre_tokenizers.ByteLevel(add_prefix_space=False)])),
        "sentencepiece": sentencepiece(), "metaspace_first": metaspace("first", False),
        "metaspace_split": metaspace("always", True), "metaspace_never": metaspace("never", True)}
    (out).mkdir(parents=True, exist_ok=True)
    (out / "corpus.jsonl").write_text("".join(json.dumps(dict(text=d)) + "\n" for d in corpus()))
    (out / "VERSIONS").write_text(f"tokenizers {tokenizers.__version__}, Python {sys.version.split()[0]}, unicodedata {unicodedata.unidata_version}\n")
    for name, t in made.items():
        if names and name not in names:
            continue
        (out / name).mkdir(exist_ok=True)
        t.save(str(out / name / "tokenizer.json"))
        with open(out / name / "cases.jsonl", "w") as f:
            for s in texts():
                ids = t.encode(s).ids
                f.write(json.dumps(dict(text=s, ids=ids, decoded=t.decode(ids, skip_special_tokens=False))) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
