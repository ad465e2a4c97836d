#!/usr/bin/env python3
"""Compares docs/glossary.md with the code. A file that the glossary names exists and uses the word; the words below have such a
file; the functions in ARCHITECTURE.md and docs/how-it-works.md are in the files that these pages name; and names keep one meaning:
a lane is one of a vector, only in src/kernels; a number of accumulation groups is not assigned from a number of blocks; `at` and
`place` are numbers (of an element or a byte, of a rank)."""
import pathlib, re, sys

from check_names import blank

root = pathlib.Path(__file__).resolve().parent.parent
WITH_A_FILE = ["at", "chunk", "extent", "place", "run", "share", "slot", "team", "turn"]
# Names -> the types that they may have: never a pointer, an array or a struct.
NUMBERS = {"int", "int32_t", "int64_t", "uint32_t", "uint64_t", "size_t", "json_int_t"}
TYPES = {"at": NUMBERS, "place": NUMBERS | {"hlo_value", "hlo_index", "rank_place"}}  # the latter: on devices, on a host
# A newcomer's path: rows of a file and a function that is defined there.
PATHS = ["ARCHITECTURE.md", "docs/how-it-works.md"]
PATH_ROW = re.compile(r"\| `(src/[\w/.]+\.[ch])` \| `(\w+)` \|")
NO_TYPES = {"return", "sizeof", "case", "else"}
bad = []
seen = {}
for number, line in enumerate((root / "docs/glossary.md").read_text().splitlines(), 1):
    cells = [c.strip() for c in line.strip("|").split("|")]
    if not line.startswith("| ") or len(cells) != 2 or cells[0] == "word":
        continue
    for path in re.findall(r"`(src/[\w/.]+)`", cells[1]):
        seen.setdefault(cells[0], []).append(path)
        file = root / path
        if not file.exists():
            bad.append(f"docs/glossary.md:{number}: {path} is not there")
        elif not re.search(rf"(?<![^\W_]){cells[0]}(?:e?s)?(?![^\W_])", file.read_text()):  # also as a word of a name
            bad.append(f'docs/glossary.md:{number}: {path} does not have the word "{cells[0]}"')
bad += [f'docs/glossary.md: "{word}" has no row with a file of src/' for word in WITH_A_FILE if word not in seen]
for page, (number, line) in ((page, row) for page in PATHS for row in enumerate((root / page).read_text().splitlines(), 1)):
    if m := PATH_ROW.match(line):
        file = root / m[1]
        if not file.exists() or not re.search(rf"^\w[^;=]*?\b{m[2]}\([^;{{}}]*\)\s*\{{", file.read_text(), re.M):
            bad.append(f"{page}:{number}: {m[1]} has no function {m[2]}")
for path in sorted((root / "src").rglob("*.[ch]")):
    name = str(path.relative_to(root / "src"))
    text = blank(path.read_text())

    def refuse(m, what):
        bad.append(f"src/{name}:{text.count(chr(10), 0, m.start()) + 1}: {what} (docs/glossary.md)")

    if "lane" in text and not name.startswith("kernels/"):
        for m in re.finditer(r"\w+", text):
            if re.search(r"(?:\b|_)lanes?(?:\b|_)", m[0]):
                refuse(m, f"{m[0]}: lanes are parts of a vector")
    for m in re.finditer(r"(\w*accum_groups\w*)\s*=(?!=)([^;,]*)", text):
        if re.search("blocks|zigzag", m[2]):
            refuse(m, f"{m[1]} = {m[2].strip()}: accumulation groups are not blocks")
    for m in re.finditer(r"\b(at|place)\b\s*([=;,)\[])", text):
        before = re.search(r"(\w+)(\s+(?:const\s+)?\**|\s*\*+(?:const\s+)?)$", text[max(m.start() - 40, 0):m.start()])
        if not before or before[1] in NO_TYPES:
            continue
        if before[1] not in TYPES[m[1]] or m[2] == "[" or "*" in before[2] and before[1] != "rank_place":
            refuse(m, f"{before[0].strip()} {m[1]}: expected a number")
print("\n".join(bad + [f"glossary: {len(seen)} words with a file, {len(bad)} problems"]))
sys.exit(bool(bad))
