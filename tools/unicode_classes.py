#!/usr/bin/env python3
"""Writes the code points of the character classes that Hugging Face tokenizers use, since libraries have different versions of
Unicode and the ids must be the same: src/tok/unicode_categories.inc (the general category of each
code point, as runs) and src/tok/unicode_scripts.inc (scripts, and what \\w has beyond categories).

    python tools/unicode_classes.py src/tok
"""
import pathlib
import sys

import tokenizers
from tokenizers import Regex, pre_tokenizers

from code_points import POINTS, ranges

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCRIPTS = "Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Thai Devanagari".split()
WORD = "L M Nd Nl Pc".split()
BLOCK = 128  # cutting costs the square of it


def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = []
    for i in range(0, len(POINTS), BLOCK):
        block = POINTS[i:i + BLOCK]
        others = set("".join(w for w, _ in split.pre_tokenize_str("".join(map(chr, block)))))
        found += [c for c in block if chr(c) not in others]
    return found


def write(path, rows, what):
    with open(path, "w") as f:
        f.write(f"// Made by tools/unicode_classes.py with tokenizers {tokenizers.__version__}: {what}.\n")
        line = ""
        for row in rows:
            if len(line) + len(row) > 98:
                f.write(line + "\n")
                line = ""
            line += " " * bool(line) + row
        f.write(line + "\n")


def main(folder):
    category = {c: name for name in CATEGORIES for c in members(rf"\p{{{name}}}")}
    assert len(category) == len(POINTS)
    runs = [(c, category[c]) for i, c in enumerate(POINTS) if i == 0 or category[c] != category[POINTS[i - 1]]]
    write(folder / "unicode_categories.inc", ["{0x%X, CAT_%s}," % (c, name.upper()) for c, name in runs],
          "first code point of a run, general category")
    # src/tok/code_set.c builds these of categories
    assert set(members(r"\s")) == {c for c in POINTS if category[c][0] == "Z" or 9 <= c <= 13 or c == 0x85}
    assert members(r"\h") == [c for c in POINTS if c < 128 and chr(c) in "0123456789ABCDEFabcdef"]
    assert members(r"\d") == [c for c in POINTS if category[c] == "Nd"]
    word = set(members(r"[\w]"))
    assert set(members(r"\w")) - word == {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}
    assert all(c in word for c in POINTS if category[c] in WORD or category[c][0] in WORD)
    rows = ["{0x%X, 0x%X, SET_WORD}," % (a, b) for a, b in ranges([c for c in sorted(word) if category[c] not in WORD and category[c][0] not in WORD])]
    for name in SCRIPTS:
        rows += ["{0x%X, 0x%X, SET_%s}," % (a, b, name.upper()) for a, b in ranges(members(rf"\p{{{name}}}"))]
    write(folder / "unicode_scripts.inc", rows, "first and last code point, set")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
