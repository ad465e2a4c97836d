#!/usr/bin/env python3
"""Measures what the packaged Oniguruma knows of Unicode, for docs/adr/0045-split-patterns.md: whether its classes are those
of the Unicode that this Python has, how many code points of each class in src/tok (the classes of Hugging Face's
tokenizers) it does not know, and how many patterns it cuts texts by as Hugging Face does. Needs libonig.so.5 (Debian:
libonig5).

    python3 tools/libonig_unicode.py
"""
import ctypes, json, pathlib, re, unicodedata

from code_points import POINTS

tok = pathlib.Path(__file__).resolve().parent.parent / "src/tok"
onig = ctypes.CDLL("libonig.so.5")
onig.onig_version.restype = ctypes.c_char_p
onig.onig_region_new.restype = ctypes.c_void_p
UTF8 = ctypes.addressof(ctypes.c_char.in_dll(onig, "OnigEncodingUTF8"))
RUBY = ctypes.addressof(ctypes.c_char.in_dll(onig, "OnigSyntaxRuby"))
text = "".join(map(chr, POINTS)).encode()
held = ctypes.create_string_buffer(text, len(text))


class Region(ctypes.Structure):
    _fields_ = [("allocated", ctypes.c_int), ("n", ctypes.c_int), ("beg", ctypes.POINTER(ctypes.c_int)),
                ("end", ctypes.POINTER(ctypes.c_int))]


def compile_pattern(pattern):
    """A pattern of libonig; None: it is refused."""
    out, where, raw = ctypes.c_void_p(), (ctypes.c_void_p * 3)(), ctypes.create_string_buffer(pattern.encode())
    begin = ctypes.addressof(raw)
    failed = onig.onig_new(ctypes.byref(out), ctypes.c_void_p(begin), ctypes.c_void_p(begin + len(raw) - 1), 0,
                           ctypes.c_void_p(UTF8), ctypes.c_void_p(RUBY), where)
    return None if failed else out


def members(pattern):
    """The code points that a class of libonig has."""
    compiled, region, found, at = compile_pattern(pattern + "+"), ctypes.c_void_p(onig.onig_region_new()), set(), 0
    begin = ctypes.addressof(held)
    address = ctypes.c_void_p
    while onig.onig_search(compiled, address(begin), address(begin + len(text)), address(begin + at), address(begin + len(text)),
                           region, 0) >= 0:
        match = Region.from_address(region.value)
        found.update(map(ord, text[match.beg[0]:match.end[0]].decode()))
        at = match.end[0]
    return found


def cuts(compiled, text):
    """The bytes of a text at which words begin or end: at both ends of each match, found as the crate onig finds them."""
    bytes_, region, found, at, last = text.encode(), ctypes.c_void_p(onig.onig_region_new()), {0}, 0, None
    buffer, address = ctypes.create_string_buffer(bytes_), ctypes.c_void_p
    begin, end = ctypes.addressof(buffer), ctypes.addressof(buffer) + len(bytes_)
    while at <= len(bytes_) and onig.onig_search(compiled, address(begin), address(end), address(begin + at), address(end), region, 0) >= 0:
        match = Region.from_address(region.value)
        if match.beg[0] == match.end[0] == last:  # empty, and behind the last match
            at += 1
            while at < len(bytes_) and bytes_[at] & 0xC0 == 0x80:
                at += 1
            continue
        at = last = match.end[0]
        found |= {match.beg[0], at}
    return found | {len(bytes_)}


runs = [(int(a, 16), b) for a, b in re.findall(r"\{(0x\w+), CAT_(\w\w)\}", (tok / "unicode_categories.inc").read_text())]
category = {c: name.title() for (first, name), (end, _) in zip(runs, runs[1:] + [(0x110000, "")]) for c in range(first, end)}
sets = {}
for a, b, name in re.findall(r"\{(0x\w+), (0x\w+), SET_(\w+)\}", (tok / "unicode_scripts.inc").read_text()):
    sets.setdefault(name, set()).update(range(int(a, 16), int(b, 16) + 1))
print("libonig", onig.onig_version().decode())
word = sets["WORD"] | {c for c in POINTS if category[c][0] in "LM" or category[c] in ("Nd", "Nl", "Pc")}
classes = {rf"\p{{{kind}}}": {c for c in POINTS if category[c][0] == kind} for kind in "LNMPS"}
python = {rf"\p{{{kind}}}": {c for c in POINTS if unicodedata.category(chr(c))[0] == kind} for kind in "LNMPS"}
print(f"its classes {'are' if all(members(p) == python[p] for p in python) else 'are not'} those of Unicode {unicodedata.unidata_version}")
# All but unassigned ones, controls, surrogates and those of private use: Unicode counts itself so, 154,998 in version 16.0.
NO_CHARACTERS = ("Cn", "Cc", "Cs", "Co")
print(f"src/tok has {sum(name not in NO_CHARACTERS for name in category.values()):,} characters, this Python "
      f"{sum(unicodedata.category(chr(c)) not in NO_CHARACTERS for c in POINTS):,}")
for pattern, ours in (classes | {r"\p{Han}": sets["HAN"], r"\w": word}).items():
    print(f"{pattern}: {len(ours - members(pattern)):,} of {len(ours):,} unknown")
head, *lines = map(json.loads, (tok.parent.parent / "tests/golden/tokenizers/patterns.jsonl").read_text().splitlines())
taken = [line for line in lines if line["cuts"]]  # by Hugging Face's
made = [(compile_pattern(line["pattern"]), line["cuts"]) for line in taken]
n_other = sum(p is not None and any(cuts(p, t) != set(c) | {0, len(t.encode())} for t, c in zip(head["texts"], all)) for p, all in made)
print(f"of {len(lines)} patterns Hugging Face takes {len(taken)}: {n_other} have other words here, {sum(p is None for p, _ in made)} are refused")
