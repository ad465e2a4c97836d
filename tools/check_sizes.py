#!/usr/bin/env python3
"""Refuses files over 600 lines, functions over 60 lines (tables of data apart), file names that are not unique in
src/, and a folder of src/ with more lines of .c and .h than its budget in layers.txt. Functions of tests are held
to the same."""
import collections, pathlib, re, sys

MAX_FILE, MAX_FUNCTION = 600, 60
root = pathlib.Path(__file__).resolve().parent.parent
bad, names, lines_of = [], collections.defaultdict(list), collections.Counter()
budgets = {m[1]: int(m[2]) for m in re.finditer(r"^lines (\w+): +(\d+)$", (root / "layers.txt").read_text(), re.M)}


def functions(lines):
    """(first line from 1, name, number of lines) of each function: clang-format puts the brace that ends one, and
    nothing else that closes a block, into the first column."""
    begin = None
    for i, line in enumerate(lines):
        if re.match(r"[A-Za-z_].*\(", line) and not line.startswith(("typedef", "struct", "enum")):
            begin = i
        if line.startswith(("}", "#")) or re.match(r"[A-Za-z_].*[;=]$", line) or line.endswith(("= {", ";")) and begin == i:
            if line == "}" and begin is not None:
                name = re.findall(r"(\w+)\(", lines[begin])
                yield begin + 1, name[-1] if name else "?", i - begin + 1
            if line.startswith("}"):
                begin = None


for path in sorted(p for folder in ("src", "tests", "bench") for p in (root / folder).rglob("*.[ch]")):
    lines = path.read_text().splitlines()
    short = path.relative_to(root)
    if short.parts[0] == "src":
        lines_of[short.parts[1]] += len(lines)
        names[path.name].append(str(short))
    if len(lines) > MAX_FILE:
        bad.append(f"{short}: {len(lines)} lines, at most {MAX_FILE}")
    bad += [f"{short}:{at}: function {name} has {n} lines, at most {MAX_FUNCTION}"
            for at, name, n in functions(lines) if n > MAX_FUNCTION]
bad += [f"one name, several files: {', '.join(p)}" for p in names.values() if len(p) > 1]
for folder, n in sorted(lines_of.items()):
    if n > budgets.get(folder, 0):
        bad.append(f"src/{folder} has {n} lines, its budget in layers.txt is {budgets.get(folder, 0)}: take some out, or raise it "
                   "in a commit that says why")
print(*bad, sep="\n", end="\n" if bad else "")
print(f"sizes: {sum(lines_of.values())} lines in src, {len(bad)} problems")
sys.exit(bool(bad))
