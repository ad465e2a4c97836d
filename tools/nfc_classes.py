#!/usr/bin/env python3
"""Writes src/tok/nfc_inert.inc: the characters that Unicode reorders or composes in NFC, but Hugging Face's tokenizers do not, because
their NFC has the data of an older Unicode (that of Unicode 9 in tokenizers 0.23.3). Needs tokenizers and unicodedata2 (Unicode 18).

    python tools/nfc_classes.py >src/tok/nfc_inert.inc
"""
import unicodedata2 as unicode
from tokenizers import normalizers, __version__

from code_points import POINTS, ranges

NFC, NFD = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str


def is_active(c):
    """Whether Hugging Face reorders, decomposes or composes the character. U+0345 has the last combining class, U+0334 the first."""
    s = chr(c)
    return NFC(s) != s or NFD(s) != s or NFC("a\u0345" + s) != "a\u0345" + s or NFC("a" + s + "\u0334") != "a" + s + "\u0334"


def main():
    inert = {c for c in POINTS if (unicode.combining(chr(c)) or unicode.normalize("NFD", chr(c)) != chr(c)) and not is_active(c)}
    for c in POINTS:
        parts = [int(x, 16) for x in unicode.decomposition(chr(c)).split()] if not unicode.decomposition(chr(c)).startswith("<") else []
        pair = "".join(map(chr, parts))
        if len(parts) == 2 and unicode.normalize("NFC", pair) != pair and NFC(pair) == pair:
            inert |= {x for x in parts if not is_active(x)}
    print(f"// Made by tools/nfc_classes.py from tokenizers {__version__} and Unicode {unicode.unidata_version}.")
    rows = [f"{{0x{first:04X}, 0x{last:04X}}}," for first, last in ranges(sorted(inert))]
    for i in range(0, len(rows), 4):
        print(" ".join(rows[i:i + 4]))


main()
