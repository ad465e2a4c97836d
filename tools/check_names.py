#!/usr/bin/env python3
"""Checks the names of parameters and local variables by three rules, and lists the violations:

- A name of one letter lives for at most a third of a screen (20 lines); i, j and k as indices may live longer, and so may
  letters that a comment of the file or of a header of its folder introduces ("// Legend: B rows, T tokens per row").
- Pointers to a type of ONE_NAME have the one letter that it says, however long they live, unless it is another's name in that function.
- A function has the same names of parameters in its header and where it is defined, so that the comment of the header speaks of
  what is there.

    tools/check_names.py [--lines N] [FILE...]

A name's scope runs from its declaration to the end of its block. The reading is that of a text that clang-format has laid out.
"""
import argparse, pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
INDICES = set("ijk")
ONE_NAME = {"arena": "a", "jinja_context": "c", "programs": "p", "run": "r"}
WORD = r"[A-Za-z_]\w*"
NO_TYPE = {"if", "for", "while", "switch", "return", "sizeof", "else", "do", "case", "goto", "typedef"}
# A declaration: where a statement or a parameter begins, a type of one or two words, stars, the name.
QUALIFIER = r"(?:const|static|struct|unsigned|enum|volatile|_Atomic|long)"
DECLARATION = re.compile(rf"(?:^|[;{{(,])\s*(?P<type>(?:{QUALIFIER}\s+)*{WORD}(?:\(\d*\w*\))?(?:\s+const)?)"
                         rf"(?P<stars>[\s*]*(?:const|restrict)?[\s*]+)(?P<name>{WORD})\s*(?=[=;,)\[:])")
NEXT_NAME = re.compile(rf",\s*\**(?P<name>{WORD})\s*(?=[=;,\[])")
FUNCTION = re.compile(r"^[A-Za-z_][^;={}]*?\)\s*\{$", re.M)
PROTOTYPE = re.compile(r"^[A-Za-z_][^;={}]*?\)\s*;", re.M)


def blank(text):
    """The same text with comments, strings and preprocessor lines blanked, line by line."""
    spaces = lambda m: re.sub(r"[^\n]", " ", m[0])
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', spaces, text, flags=re.S)
    return re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*", spaces, text, flags=re.M)


def functions(text):
    """(begin of the head, begin of the body, end of the body) of each function."""
    for m in FUNCTION.finditer(text):
        end = text.find("\n}", m.end())
        if end > 0:
            yield m.start(), m.end(), end


def block_end(text, at, end):
    depth = 0
    for i in range(at, end):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth < 0:
            return i
    return end


def loop_end(text, at, end):
    """Where the loop ends whose head declares what stands at `at`."""
    depth, brace = 1, at
    while depth:
        depth += {"(": 1, ")": -1}.get(text[brace], 0)
        brace += 1
    line = text.rfind("\n", 0, at) + 1
    indent = len(text[line:]) - len(text[line:].lstrip())
    rest = re.compile(rf"^ {{0,{indent}}}\S", re.M).search(text, text.index("\n", brace))
    return rest.start() if rest else end


def flat(stretch):
    """A stretch without what stands in brackets."""
    depth, out = 0, ""
    for c in stretch:
        depth += (c in "([{") - (c in ")]}")
        out += " " if depth or c in ")]}" else c
    return out


def names(text, head, body, end):
    """(position, type, name, end of scope) of each parameter and local variable of a function."""
    if text.startswith("TEST(", head):  # a parameter of the macro's
        yield head, "arena*", "a", end
    for m in DECLARATION.finditer(text, text.index("(", head), end):
        if NO_TYPE & {m["name"], *m["type"].split()} or len(m["type"]) == 1:  # a statement, a product
            continue
        at, kind = m.start("name"), m["type"] + m["stars"].strip()
        stop = end if at < body else block_end(text, at, end)
        if at >= body and re.match(r"\s*for \(", text[text.rfind("\n", 0, at) + 1:at]):
            stop = min(stop, loop_end(text, at, end))
        yield at, kind, m["name"], stop
        if at >= body:
            for more in NEXT_NAME.finditer(flat(text[m.end():text.index(";", m.end())]) + ";"):
                yield at, m["type"], more["name"], stop


def long_letters(path, most):
    source = path.read_text()
    text = blank(source)
    legends = source + "".join(header.read_text() for header in path.parent.glob("*.h"))
    legend = {item.split()[0] for found in re.findall(r"// Legend:((?:[^.\n]|\n//)*)", legends)
              for item in re.split("[,;=]|//", found) if item.strip()}
    for head, body, end in functions(text):
        found = list(names(text, head, body, end))
        taken = {name for _, _, name, _ in found}
        for at, kind, name, stop in found:
            lines = text.count("\n", at, stop) + 1
            one = ONE_NAME.get(re.sub("const |static ", "", kind).rstrip("*")) if kind.endswith("*") else None
            if one and name != one and one not in taken:
                yield f"{path.relative_to(root)}:{text.count(chr(10), 0, at) + 1}: {kind} {name}, expected the name {one}"
            if name != one and len(name) == 1 and lines > most and name not in legend and not (name in INDICES and "*" not in kind):
                yield f"{path.relative_to(root)}:{text.count(chr(10), 0, at) + 1}: {kind} {name} lives for {lines} lines"


def parameters(text):
    """(function, names of its parameters) of the text of a head or prototype."""
    begin = text.index("(")
    name = re.findall(WORD, text[:begin])[-1]
    inside = text[begin + 1:text.rindex(")")]
    out = [re.findall(WORD, re.sub(r"\[[^\]]*\]|\bDRV_UNUSED\b", "", part)) for part in flat(inside).split(",")]
    return name, [words[-1] if len(words) > 1 else "" for words in out]


def other_parameters(headers, sources):
    declared = {}
    for path in headers:
        text = blank(path.read_text())
        for m in PROTOTYPE.finditer(text):
            if "typedef" not in m[0] and "(*" not in m[0]:
                name, found = parameters(m[0])
                declared[name] = (f"{path.relative_to(root)}:{text.count(chr(10), 0, m.start()) + 1}", found)
    for path in sources:
        text = blank(path.read_text())
        for head, body, _ in functions(text):
            if text.startswith("static", head) or "(*" in text[head:body]:
                continue
            name, found = parameters(text[head:body])
            where, expected = declared.get(name, (None, found))
            if found != expected:
                yield f"{path.relative_to(root)}: {name}({', '.join(found)}), in {where}: ({', '.join(expected)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=20)
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    paths = [pathlib.Path(f).resolve() for f in args.files] or sorted(
        p for folder in ("src", "tests", "bench") for p in (root / folder).rglob("*.[ch]"))
    bad = [line for path in paths for line in long_letters(path, args.lines)]
    bad += other_parameters([p for p in paths if p.suffix == ".h"], [p for p in paths if p.suffix == ".c"])
    print(*bad, sep="\n", end="\n" if bad else "")
    print(f"names: {len(paths)} files, {len(bad)} problems")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
