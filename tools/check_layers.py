#!/usr/bin/env python3
"""Refuses an #include "folder/..." that layers.txt does not allow, and a cycle in layers.txt."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
allowed = {}
for line in (root / "layers.txt").read_text().splitlines():
    line = line.split("#")[0].strip()
    if line:
        folder, _, rest = line.partition(":")
        allowed[folder.strip()] = set(rest.split())

def reaches(a, b, seen=()):
    return any(n == b or (n not in seen and reaches(n, b, (*seen, n))) for n in allowed.get(a, ()))

bad = [f"layers.txt: {f} includes itself through others" for f in allowed if reaches(f, f)]
edges = 0
for path in sorted((root / "src").rglob("*.[ch]")):
    folder = path.relative_to(root / "src").parts[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        m = re.match(r'\s*#\s*include\s+"(\w+)/', line)
        if m and m[1] != folder:
            edges += 1
            if m[1] not in allowed.get(folder, ()):
                bad.append(f"{path.relative_to(root)}:{number}: {folder} may not include {m[1]}")
print(*bad, sep="\n", end="\n" if bad else "")
print(f"layers: {edges} includes across folders, {len(bad)} not allowed")
sys.exit(bool(bad))
