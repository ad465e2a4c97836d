#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/offsets.jsonl: where Hugging Face's tokenizers say that each id of a text begins.
Needs tokenizers: tools/golden_offsets.py > tests/golden/tokenizers/offsets.jsonl
A record: tokenizer, nfc (added to it), text, ids, begins (code points of the text)."""
import json, os
from tokenizers import Tokenizer

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "tokenizers")
NAMES = ["gpt2", "llama3", "other", "digits", "sentencepiece", "metaspace_first", "metaspace_split", "metaspace_never"]
TEXTS = ["Hello world, 123 and  two spaces.\n\nA new line", " leading", "a", "tabs\tand\u00a0more   ", "na\u00efve caf\u00e9 \u2014 \u65e5\u672c\u8a9e",
         "\U0001f600 smile \U0001f44d\U0001f3fd", "\u2581under \u2581\u2581two", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0441\u043b\u043e\u0432\u043e",
         "x <s> y</s>z <|endoftext|><|im_start|>user\nHi<|im_end|>\n", "cafe\u0301 e\u0301e\u0301 x", "\u212a and \u2126 and \u1e9b\u0323", "\u1100\u1161\u11a8 x"]


# Spaces that belong to a word belong to its token here: Hugging Face leaves them out on request only.
def untrimmed(part):
    if isinstance(part, dict):
        if "trim_offsets" in part:
            part["trim_offsets"] = False
        for value in part.values():
            untrimmed(value)
    elif isinstance(part, list):
        for value in part:
            untrimmed(value)


for name in NAMES:
    with open(os.path.join(GOLDEN, name, "tokenizer.json"), encoding="utf-8") as f:
        settings = json.load(f)
    untrimmed(settings)
    byte_level = "ByteLevel" in json.dumps(settings["pre_tokenizer"])
    for nfc in [False, True] if byte_level and not settings["normalizer"] else [False]:
        if nfc:
            settings["normalizer"] = {"type": "NFC"}
        tokenizer = Tokenizer.from_str(json.dumps(settings))
        for text in TEXTS:
            e = tokenizer.encode(text, add_special_tokens=False)
            print(json.dumps({"tokenizer": name, "nfc": nfc, "text": text, "ids": e.ids, "begins": [o[0] for o in e.offsets]}))
