#!/usr/bin/env python3
"""Holds docs/glossary.md to the code: a file that a word is explained with is there and uses the word; the words below have such a
file; and a word of the first list stands for its thing alone, so nothing else is called so."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
WITH_A_FILE = ["addend", "branch", "chunk", "courier", "lane", "leaf", "run", "share", "slot", "turn"]
# A word as a name or in a comment -> where it may stand, by the beginning of the path below src/.
ONLY_IN = {
    # micro-batches that are added up; what a context rank has of a row is row_leaves. In kernels/ it is part of a vector.
    r"\blanes?\b|\w_lanes?\b|\blanes?_\w": (
        "kernels/", "config/", "weights/run_layout", "train/", "search/", "passes/lane_program.c", "passes/passes.h",
        "ir/ops/lane.c", "ir/ops/shard.c", "ir/shard.h", "ir/graph.h", "passes/shard_gradients.c", "passes/sum_beside.c",
        "base/backend_caps.h", "backend/cpu/run_shard.c", "backend/cpu/run_update.c",
        "backend/pjrt/stablehlo/lower_update.c", "cli/", "translate/"),
}
bad = []
seen = {}
for number, line in enumerate((root / "docs/glossary.md").read_text().splitlines(), 1):
    cells = [c.strip() for c in line.strip("|").split("|")]
    if not line.startswith("| ") or len(cells) != 2 or cells[0] == "word":
        continue
    for path in re.findall(r"`(src/[\w/.]+)`", cells[1]):
        seen.setdefault(cells[0], []).append(path)
        file = root / path
        stem = cells[0][:-1] if cells[0].endswith("f") else cells[0]  # leaf, leaves
        if not file.exists():
            bad.append(f"docs/glossary.md:{number}: {path} is not there")
        elif not re.search(stem, file.read_text()):
            bad.append(f'docs/glossary.md:{number}: {path} does not have the word "{cells[0]}"')
bad += [f'docs/glossary.md: "{word}" has no row with a file of src/' for word in WITH_A_FILE if word not in seen]
for path in sorted((root / "src").rglob("*.[ch]")):
    name = str(path.relative_to(root / "src"))
    for pattern, rooms in ONLY_IN.items():
        if name.startswith(rooms):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(pattern, line):
                bad.append(f"src/{name}:{number}: a lane is something else (docs/glossary.md)")
print("\n".join(bad + [f"glossary: {len(seen)} words with a file, {len(bad)} problems"]))
sys.exit(bool(bad))
