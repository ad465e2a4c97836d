#!/usr/bin/env python3
"""Makes tests/golden/splits.txt: paths of files as data sets on the hub have them, drawn at random, each with the split that
Hugging Face datasets gives to a repository of this file alone: train, validation, test, or none where it knows none. Paths
to which it gives two are left out, and those of splits by other names (data/NAME-00000-of-00001). Needs datasets.

    python tools/golden_splits.py tests/golden/splits.txt
"""
import random, sys
import datasets
from datasets.data_files import ALL_DEFAULT_PATTERNS, DEFAULT_PATTERNS_ALL, DEFAULT_PATTERNS_HARBOR, DEFAULT_PATTERNS_LOGS
from fsspec.implementations.memory import MemoryFileSystem

WORDS = ["train", "training", "validation", "valid", "dev", "val", "test", "testing", "eval", "evaluation", "tests", "devel", "trainer",
         "evals", "data", "en", "wiki", "part", "contest", "latest", "retrain", "val2", "Training"]
rng = random.Random(11)


def split_of(path):
    """By datasets' own order: the first kind of pattern that finds something."""
    files = MemoryFileSystem()
    files.store.clear()
    files.pipe_file("/repo/" + path, b"x")
    for patterns in ALL_DEFAULT_PATTERNS:
        if patterns in (DEFAULT_PATTERNS_ALL, DEFAULT_PATTERNS_LOGS, DEFAULT_PATTERNS_HARBOR):
            continue
        found = {str(split) for split, globs in patterns.items() for glob in globs
                 if any(info["type"] == "file" for info in files.glob("/repo/" + glob, detail=True).values())}
        if found:
            return found
    return {"none"}


def name():
    words = [rng.choice(WORDS) for _ in range(rng.choice([1, 1, 2, 3]))]
    return "".join(w + rng.choice(["-", "_", ".", "", " ", "0", "-00001-of-00003"]) for w in words[:-1]) + words[-1]


lines = set()
while len(lines) < 400:
    folders = [name() for _ in range(rng.choice([0, 0, 1, 2]))]
    path = "/".join(folders + [name() + rng.choice(["", "-00000-of-00001", "_1", "2"]) + rng.choice([".parquet", ".jsonl", ".txt.gz", ""])])
    found = split_of(path)
    if len(found) == 1 and path == path.lower() and not path.endswith(" "):
        lines.add(f"{found.pop()} {path}")
with open(sys.argv[1], "w") as out:
    out.write(f"# datasets {datasets.__version__} (tools/golden_splits.py)\n" + "\n".join(sorted(lines)) + "\n")
