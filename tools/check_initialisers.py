#!/usr/bin/env python3
"""Checks that initialisers of structs with five values or more name their fields. An initialiser is that of a variable or
of a compound literal; a list inside another one, whose type cannot be told from a text, is held from eight values on. Arrays and
tables (`rows[] = {{...}, ...}`, `.examples = {...}`) have no fields to name. Prints what breaks the rule: tools/check_initialisers.py"""
import pathlib, re, sys

from check_names import blank

root = pathlib.Path(__file__).resolve().parent.parent
MOST, MOST_INSIDE = 4, 7
BEGIN = re.compile(r"(?:\((?:const )?(?:struct )?[a-z]\w*\)|\b[a-z]\w* \*?(?P<name>\w+) =)\s*(?P<brace>\{)")


def lists(text, at, inside=False):
    """(offset, values without a name, whether it is inside another) of the list whose brace is at `at`, and of those in it."""
    found, begin, depth, i, plain, has_value = [], at, 0, at, 0, False
    named = text[at + 1:].lstrip()[:1] in (".", "[")
    while True:
        c = text[i]
        if c in "([{":
            if c == "{" and depth == 1 and text[begin + 1:i].rstrip()[-1:] in ("", ",", "=", "{"):
                end, more = lists(text, i, True)
                found += [m for m in more if m[0] != i or text[begin + 1:i].rstrip()[-1:] != "="]
                has_value, i = True, end + 1
                continue
            depth += 1
        elif c in ")]}":
            depth -= 1
        has_value |= depth >= 1 and i > at and not c.isspace() and c != ","
        if (c == "," and depth == 1) or depth == 0:
            plain += has_value and not named
            named = text[i + 1:].lstrip()[:1] in (".", "[")
            has_value = False
        if depth == 0:
            return i, found + [(at, plain, inside)]
        i += 1


bad, files = [], sorted((root / "src").rglob("*.[ch]"))
for path in files:
    text = blank(path.read_text())
    for m in BEGIN.finditer(text):
        for at, n, inside in lists(text, m.start("brace"))[1]:
            if n > (MOST_INSIDE if inside else MOST):
                line = text.count("\n", 0, at) + 1
                bad.append(f"{path.relative_to(root)}:{line}: {n} values without their fields' names, at most "
                           f"{MOST_INSIDE if inside else MOST}")
print(*bad, sep="\n", end="\n" if bad else "")
print(f"initialisers: {len(files)} files, {len(bad)} problems")
sys.exit(bool(bad))
