#!/usr/bin/env python3
"""Writes src/tok/unicode_classes.inc: the code points that Hugging Face tokenizers' regular expressions
take for \\p{L}, \\p{N} and \\s. Libraries know different versions of Unicode; ids must be the same as there.

    python tools/unicode_classes.py src/tok/unicode_classes.inc
"""
import sys
import tokenizers
from tokenizers import Regex, pre_tokenizers

from code_points import POINTS, ranges


def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return [c for c in POINTS if not split.pre_tokenize_str(chr(c))]


def main(path):
    rows = []
    for name, pattern in (("CP_LETTER", r"\p{L}"), ("CP_NUMBER", r"\p{N}"), ("CP_SPACE", r"\s")):
        rows += ["{0x%X, 0x%X, %s}," % (a, b, name) for a, b in ranges(members(pattern))]
    with open(path, "w") as f:
        f.write(f"// Made by tools/unicode_classes.py with tokenizers {tokenizers.__version__}: first and last code point, class.\n")
        for i in range(0, len(rows), 3):
            f.write(" ".join(rows[i:i + 3]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
