#!/usr/bin/env python3
"""Refuses files over 1,000 lines and file names that are not unique in src/."""
import collections, pathlib, sys

root = pathlib.Path(__file__).resolve().parent.parent
bad, names, total = [], collections.defaultdict(list), 0
for path in sorted((root / "src").rglob("*.[ch]")):
    lines = len(path.read_text().splitlines())
    total += lines
    names[path.name].append(str(path.relative_to(root)))
    if lines > 1000:
        bad.append(f"{path.relative_to(root)}: {lines} lines, at most 1000")
bad += [f"one name, several files: {', '.join(p)}" for p in names.values() if len(p) > 1]
print(*bad, sep="\n", end="\n" if bad else "")
print(f"sizes: {total} lines in src, {len(bad)} problems")
sys.exit(bool(bad))
