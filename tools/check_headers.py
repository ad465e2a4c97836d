#!/usr/bin/env python3
"""Refuses a .c or .h file in src/ that does not open with what it is for, and a folder in src/ that
neither has a README.md nor is described as `NAME/` in the README.md of the folder above."""
import pathlib, sys

root = pathlib.Path(__file__).resolve().parent.parent
bad = []
files = sorted((root / "src").rglob("*.[ch]"))
for path in files:
    first = path.read_text().split("\n", 1)[0]
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
