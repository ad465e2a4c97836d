#!/usr/bin/env python3
"""Refuses a .c or .h file in src/ that does not open with what it is for, a comment that begins with "What" or "Of", which leave out
the noun or the verb, and a folder in src/ that neither has a README.md nor is described as `NAME/` in the README.md of the folder
above."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
bad = []
files = sorted((root / "src").rglob("*.[ch]"))
for path in files:
    lines = path.read_text().split("\n")
    first = lines[0]
    bad += [f"{path.relative_to(root)}:{n}: a comment that begins with \"{m[1]}\", expected a noun or a verb"
            for n, line in enumerate(lines, 1) if (m := re.search(r"// (What|Of)\b", line))]
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
