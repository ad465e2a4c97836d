#!/usr/bin/env python3
"""Makes tests/golden/model_files.jsonl: small models of sentencepiece and ranks of tiktoken, texts, and the ids that those packages
have for them. A case: name of the file, its bytes (base64), texts, ids. For a night: more texts, and models with the usual rules:
build/tests/test_model_file FILE reads any such file.

    python tools/golden_model_files.py tests/golden/model_files.jsonl
    python tools/golden_model_files.py /tmp/night.jsonl SEED TEXTS [RANKS]   TEXTS of each of two dozen models; and of Llama 3's
                                                                             tokenizer.model in place of small ranks
"""
import base64, io, json, pathlib, random, sys, tempfile, unicodedata
import sentencepiece

TEXTS = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/tokenizers"
RULES = ["41 30A\tc5", "ff21\t41", "ff22\t42", "2460\t31", "fb01\t66 69", "a0\t20", "3000\t20", "9\t20", "a\t20", "ad\t", "65 301\te9", "2026\t2e 2e 2e"]
ODD = ["\u2581", "\u00a0", "\u3000", "\t", "\n", "\r\n", "  ", "   ", "ﬁ", "①", "Ａ", "Ｂ", "A\u030a", "e\u0301", "…", "\u00ad", "日本", "語", "😀", "👩\u200d💻",
       "größe", "<s>", "</s>", "<unk>", "<pad>", "<0x41>", "<sep>", "[INST]", "ab", "\u0000", "\u200b", "ﷺ", "한국", "ा", "<|im_end|>"]


def corpus():
    return [json.loads(line)["text"] for line in open(TEXTS / "corpus.jsonl", encoding="utf-8")]


def random_text(rng, words):
    parts = [rng.choice(ODD) if rng.random() < .25 else rng.choice(words) for _ in range(rng.randrange(1, 14))]
    return "".join(p + rng.choice(["", " ", " ", " ", "  ", "\n", "."]) for p in parts)


def train(texts, **options):
    out = io.BytesIO()
    options = dict(dict(vocab_size=420, hard_vocab_limit=False, character_coverage=.98, model_type="bpe", normalization_rule_name="identity"), **options)
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        if options.pop("rules", False):
            rules.write("".join(r + "\n" for r in RULES))
            rules.flush()
            options["normalization_rule_tsv"] = rules.name
            options.pop("normalization_rule_name")
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=out, minloglevel=2, **options)
    return out.getvalue()


LLAMA = dict(byte_fallback=True, remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True)
SYMBOLS = dict(user_defined_symbols=["<sep>", "ab", "\u2581\u2581", "\n"], control_symbols=["[INST]"], pad_id=3)
KINDS = {
    "llama": LLAMA, "gemma": dict(LLAMA, add_dummy_prefix=False, **SYMBOLS), "bpe_plain": {}, "bpe_rules": dict(rules=True, byte_fallback=True),
    "bpe_symbols": dict(SYMBOLS, byte_fallback=True), "bpe_suffix": dict(treat_whitespace_as_suffix=True, byte_fallback=True),
    "bpe_unsplit": dict(split_by_whitespace=False, byte_fallback=True, remove_extra_whitespaces=False), "bpe_rules_symbols": dict(SYMBOLS, rules=True),
}
KINDS.update({kind.replace("bpe", "unigram") if "bpe" in kind else f"{kind}_unigram": dict(options, model_type="unigram") for kind, options in list(KINDS.items())})
LARGE = {"t5": dict(model_type="unigram", normalization_rule_name="nmt_nfkc", bos_id=-1, vocab_size=1500),
         "albert": dict(model_type="unigram", normalization_rule_name="nmt_nfkc_cf", byte_fallback=True, vocab_size=1500),
         "bpe_nfkc": dict(normalization_rule_name="nfkc", byte_fallback=True, vocab_size=1500), "bpe_nmt": dict(SYMBOLS, normalization_rule_name="nmt_nfkc_cf")}


WORD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>",
          "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", "<|image|>"] + [f"<|reserved_special_token_{i}|>" for i in range(2, 246)]
QWEN = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
GPT = {"<|endoftext|>": 1, "<|fim_prefix|>": 2, "<|fim_middle|>": 3, "<|fim_suffix|>": 4, "<|endofprompt|>": 20}
SPECIAL = ["<|begin_of_text|>", "<|eot_id|>", "<|reserved_special_token_245|>", "<|im_start|>", "<|endoftext|>", "<|extra_204|>", "<|endofprompt|>", "<|fim_middle|>"]
SPECIAL += ["'S", "'ſ", "'LL", "12345", "\u2003", " \n ", "\n\n  ", "ǅa", "ǆ", "http://a/b/\n", "//", "\u0301"]


def families():
    """Name of the file, pattern, special tokens counted from the number of ranks."""
    import tiktoken_ext.openai_public as public
    pattern = {}
    public.load_tiktoken_bpe = lambda *a, **k: {}
    for name in "cl100k_base", "o200k_base":
        pattern[name] = getattr(public, name)()["pat_str"]
    return {"tokenizer.model": (WORD + r"\p{N}{1,3}" + REST, {t: i for i, t in enumerate(LLAMA3)}),
            "cl100k_base.tiktoken": (pattern["cl100k_base"], GPT),
            "o200k_base.tiktoken": (pattern["o200k_base"], {t: GPT[t] for t in ("<|endoftext|>", "<|endofprompt|>")}),
            "qwen.tiktoken": (WORD + r"\p{N}" + REST, {t: i for i, t in enumerate(QWEN)})}


def small_ranks():
    """Bytes, then the tokens of a small vocabulary in the order of its merges."""
    model = json.loads((TEXTS / "gpt2/tokenizer.json").read_text())["model"]
    stand_in = {c: b for b, c in bytes_to_unicode().items()}
    ranks = {bytes([b]): i for i, b in enumerate(bytes_to_unicode())}
    for merge in model["merges"]:
        token = bytes(stand_in[c] for c in ("".join(merge) if isinstance(merge, list) else merge.replace(" ", "")))
        ranks.setdefault(token, len(ranks))
    return ranks


def bytes_to_unicode():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {**{b: chr(b) for b in shown}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


def rank_cases(rng, words, n, path=None):
    import tiktoken
    ranks = small_ranks()
    if path:  # the ranks of a model that is published
        ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in open(path, "rb"))}
    for file, (pattern, special) in families().items():
        if path and file != "tokenizer.model":
            continue
        encoding = tiktoken.Encoding(file, pat_str=pattern, mergeable_ranks=ranks, special_tokens={t: len(ranks) + i for t, i in special.items()})
        texts = [random_text(rng, words + SPECIAL * 20) for _ in range(n)] + ["", " ", "a \n  ", "\n \n"]
        plain = (lambda t: unicodedata.normalize("NFC", t)) if "qwen" in file else (lambda t: t)
        lines = b"".join(base64.b64encode(t) + b" %d\n" % r for t, r in ranks.items())
        yield dict(name=file, file=file, bytes=base64.b64encode(lines).decode(), texts=texts, ids=[encoding.encode(plain(t), allowed_special="all") for t in texts])


def change(model, how):
    """The model with spaces as they are, with every 5th piece unused, or without some of its characters, which it merges nevertheless."""
    if not how:
        return model
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    if how == "unescaped":
        proto.normalizer_spec.escape_whitespaces = False
        for piece in proto.pieces:
            piece.piece = piece.piece.replace("\u2581", " ")
    normal = [piece for piece in proto.pieces if piece.type == piece.NORMAL]
    if "unused" in how:
        for piece in normal[::5]:
            piece.type = piece.UNUSED
    if "hidden" in how:
        for piece in [p for p in normal if len(p.piece) == 1][::4]:
            proto.pieces.remove(piece)
    return proto.SerializeToString()


CHANGES = {"llama": ["", "unescaped", "unused", "hidden", "unused_hidden"], "unigram_rules": ["", "unescaped"], "bpe_symbols": ["", "unused_hidden"],
           "bpe_rules": ["", "unused"], "unigram_symbols": ["", "unused"]}


def unigrams(texts, usual):
    """Name and tokenizer.json of unigram models, with what T5, mBART, XLNet and derivatives of Llama have around them. usual: with the
    rules that they have, which are large."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from sentencepiece import sentencepiece_model_pb2
    proto = lambda **options: sentencepiece_model_pb2.ModelProto.FromString(train(texts, model_type="unigram", **options))
    nmt = proto(**(dict(normalization_rule_name="nmt_nfkc_cf") if usual else dict(rules=True)), unk_id=2, bos_id=0, eos_id=1)
    bytes_ = proto(**LLAMA)
    rules = normalizers.Precompiled(nmt.normalizer_spec.precompiled_charsmap)
    runs, tail, mark = (lambda to: normalizers.Replace(Regex(" {2,}"), to)), normalizers.Strip(left=False, right=True), "\u2581"
    meta = lambda scheme, split=True: pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    marks = normalizers.Sequence([normalizers.Prepend(mark), normalizers.Replace(" ", mark)])
    kinds = {"t5": (nmt, rules, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta("always")]), False),
             "mbart": (nmt, normalizers.Sequence([rules, runs(" ")]), meta("always"), False),
             "xlnet": (nmt, normalizers.Sequence([rules, tail, runs(mark)]), meta("always"), False),
             "first": (nmt, normalizers.Sequence([tail, runs(" ")]), meta("first"), False), "never": (nmt, None, meta("never", False), False),
             "llama": (bytes_, marks, None, True), "some_bytes": (bytes_, normalizers.Sequence([runs(" "), marks]), None, True),
             "plain": (nmt, normalizers.Strip(left=True, right=False), None, False)}
    for name, (model, normalizer, words, fallback) in kinds.items():
        pieces = [(p.piece, p.score) for p in model.pieces if not (name == "some_bytes" and p.type == p.BYTE and p.piece[4] in "37B")]
        tokenizer = Tokenizer(models.Unigram(pieces, [p for p, _ in pieces].index("<unk>"), fallback))
        if normalizer:
            tokenizer.normalizer = normalizer
        if words:
            tokenizer.pre_tokenizer = words
            tokenizer.decoder = decoders.Metaspace(prepend_scheme="never" if name == "never" else "always")
        tokenizer.add_special_tokens(["<s>", "</s>", "<unk>"])
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))])
        yield "tokenizers_" + name, tokenizer


def main(out, seed=1, n=0, path=None):
    rng, texts = random.Random(seed), corpus()
    words = [w for t in texts for w in t.split()]
    with open(out, "w", encoding="utf-8") as f:
        for name, options in {**KINDS, **(LARGE if n else {})}.items():
            model = train(texts, **options)
            for how in CHANGES.get(name, [""]):
                bytes_ = change(model, how)
                processor = sentencepiece.SentencePieceProcessor(model_proto=bytes_)
                some = [random_text(rng, words) for _ in range(n or 24)] + (texts if n else texts[:12]) + ["", " ", "\u2581", "  a  "]
                some = [t for t in some if len(t) < 4000 or n]
                f.write(json.dumps(dict(name=name + ("_" + how if how else ""), file="tokenizer.model", bytes=base64.b64encode(bytes_).decode(), texts=some,
                                        ids=[processor.encode(t) for t in some]), ensure_ascii=False) + "\n")

        for name, tokenizer in unigrams(texts, n > 0):
            some = [random_text(rng, words) for _ in range(n or 24)] + (texts if n else texts[:12]) + ["", " ", "\u2581", "  a  ", "a \r\n b"]
            some = [t for t in some if len(t) < 4000 or n]
            f.write(json.dumps(dict(name=name, file="tokenizer.json", bytes=base64.b64encode(tokenizer.to_str().encode()).decode(), texts=some,
                                    ids=[tokenizer.encode(t, add_special_tokens=False).ids for t in some]), ensure_ascii=False) + "\n")
        for case in rank_cases(rng, words, n or 25, path):
            f.write(json.dumps(case, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], *(int(a) for a in sys.argv[2:4]), *sys.argv[4:5])
