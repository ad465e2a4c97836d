#!/usr/bin/env python3
"""Writes src/chat/case_mappings.inc: the case mappings of Python's str.upper, lower and title that libutf8proc lacks, since it
maps each character to one: mappings to several characters (Unicode's SpecialCasing), letters that are upper or lower case
only by property (Other_Uppercase, Other_Lowercase), and characters that are skipped before and after a sigma
(Case_Ignorable).

    python tools/case_mappings.py src/chat/case_mappings.inc

With --check PROGRAM it compares the program's four conversions with Python's, for all characters that this Python knows,
except those of large scripts without case.
"""
import json, os, subprocess, sys, tempfile, unicodedata

from code_points import POINTS, ranges


def ignorable(c):  # a sigma is final after a letter and before none; what is ignorable changes neither
    return ("A" + c + "\u03a3").lower()[-1] == "\u03c2" and ("A\u03a3" + c).lower()[1] == "\u03c2"


def by_property():
    """Class of code points, where it does not follow from the category."""
    category = unicodedata.category
    yield "CASE_IS_UPPER", [c for c in POINTS if chr(c).isupper() and category(chr(c)) != "Lu"]
    yield "CASE_IS_LOWER", [c for c in POINTS if chr(c).islower() and category(chr(c)) != "Ll"]
    yield "CASE_IS_IGNORABLE", [c for c in POINTS if ignorable(chr(c)) and
                                category(chr(c)) not in ("Mn", "Me", "Cf", "Lm", "Sk")]


def write(path):
    rows = []
    for c in map(chr, POINTS):
        if max(len(c.upper()), len(c.title()), len(c.lower())) > 1:
            texts = ", ".join('"%s"' % "".join("\\x%02x" % b for b in t.encode()) for t in (c.upper(), c.title(), c.lower()))
            rows.append("CASE_MAPPING(0x%04X, %s)" % (ord(c), texts))
    for name, points in by_property():
        rows += ["CASE_RANGE(0x%04X, 0x%04X, %s)" % (a, b, name) for a, b in ranges(points)]
    with open(path, "w") as f:
        f.write("// Made by tools/case_mappings.py with Unicode %s: code point, upper, title and lower case;\n"
                "// first and last code point of a class.\n" % unicodedata.unidata_version)
        f.write("\n".join(rows) + "\n")


BATCH = 500  # characters: a template may have 64 MiB
# A method and what is asked of it: alone, after and before letters, and around a sigma.
METHODS = ["upper", "lower", "title", "capitalize"]
AROUND = ["%s", "a%s", "%sB", "A%s\u03a3", "A\u03a3%s", "A\u03a3%sb"]
WITHOUT_CASE = [(0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0x12000, 0x16AFF), (0x17000, 0x18CFF), (0x20000, 0x3FFFF)]
TEMPLATE = "{% for m in messages %}" + "".join("{{ m.content." + m + "() }}\n" for m in METHODS) + "{% endfor %}"


def check(program):
    known = [chr(c) for c in POINTS if c > 32 and unicodedata.category(chr(c)) not in ("Cn", "Co") and
             not any(a <= c <= b for a, b in WITHOUT_CASE)]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        template, messages = (os.path.join(folder, name) for name in ("t.jinja", "m.json"))
        with open(template, "w") as f:
            f.write(TEMPLATE)
        for at in range(0, len(known), BATCH):
            texts = [form % c for c in known[at:at + BATCH] for form in AROUND]
            with open(messages, "w") as f:
                json.dump([{"role": "user", "content": t} for t in texts], f)
            out = subprocess.run([program, "chat", "--template", template, "--messages", messages, "--print"],
                                 stdout=subprocess.PIPE, check=True).stdout.decode()
            lines = out.split("\n")
            for i, text in enumerate(texts):
                for k, method in enumerate(METHODS):
                    want, found = str(getattr(text, method)()), lines[i * len(METHODS) + k]
                    if want != found:
                        failed += 1
                        if failed <= 20:
                            print("%a.%s() is %a, expected %a" % (text, method, found, want))
    print("%d characters, %d differences" % (len(known), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2]))
    write(sys.argv[1])
