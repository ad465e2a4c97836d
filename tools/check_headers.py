#!/usr/bin/env python3
"""Refuses a .c or .h file in src/ that does not begin with a comment about its purpose; a comment that begins with a word of
NO_SENTENCE, after which a noun or a verb is missing; and a folder in src/ that has no README.md and is not described as `NAME/` in
the README.md of its parent folder."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
# "What", "Of": wherever a line of a comment begins so; the others may begin a later sentence ("Where x is, y is too.").
NO_SENTENCE = re.compile(r"// (What|Of)\b")
NO_BEGINNING = re.compile(r"// (Whether|Where|How|Which|Who|Whose|Why)\b")
CONTINUED = re.compile(r"\s*//(?! ---)(?!$)")
bad = []
files = sorted((root / "src").rglob("*.[ch]"))
for path in files:
    lines = path.read_text().split("\n")
    first = lines[0]
    for n, line in enumerate(lines, 1):
        m = NO_SENTENCE.search(line) or not CONTINUED.match(lines[n - 2] if n > 1 else "") and NO_BEGINNING.search(line)
        if m:
            bad.append(f"{path.relative_to(root)}:{n}: a comment that begins with \"{m[1]}\", expected a noun or a verb")
    if not first.startswith("// ") or len(first.split()) < 4:
        bad.append(f"{path.relative_to(root)}:1: no comment that says what this file is for")
folders = sorted(p for p in (root / "src").rglob("*") if p.is_dir())
for folder in folders:
    above = folder.parent / "README.md"
    described = above.exists() and f"`{folder.name}/`" in above.read_text()
    if not described and not (folder / "README.md").exists():
        bad.append(f"{folder.relative_to(root)}/: no README.md, and none of the folder above names it")
print(*bad, sep="\n", end="\n" if bad else "")
print(f"headers: {len(files)} files and {len(folders)} folders in src, {len(bad)} problems")
sys.exit(bool(bad))
