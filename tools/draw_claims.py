#!/usr/bin/env python3
"""Draws random sentences from the comments of headers and from the pages, so that somebody compares each with the code.

    tools/draw_claims.py [N] [SEED]     50 sentences, half of them of headers; the seed is printed

The same seed draws the same sentences from the same commit."""
import pathlib, random, re, subprocess, sys

root = pathlib.Path(__file__).resolve().parent.parent
n = int(sys.argv[1]) if len(sys.argv) > 1 else 50
seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
UNREAD = ("bench/results/", "docs/keys.md", "CHANGELOG.md")


def sentences(name):
    """(line, sentence) of a page's paragraphs, items and rows of tables, or of a header's comments."""
    text, block, first = (root / name).read_text(), [], 1
    if name.endswith(".md"):
        text = re.sub(r"```.*?```|<!--.*?-->", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
        lines = [re.sub(r"^\s*(?:[-*]|\d+\.)\s", "\0", line) for line in text.split("\n")]
    else:
        lines = [m[1].strip() if (m := re.search(r"//(.*)", line)) else "" for line in text.split("\n")]
    for number, line in enumerate([*lines, ""], 1):
        begins = not line.strip() or line[0] in "\0|#"
        if begins and block:
            for sentence in re.split(r"(?<=[.:;])\s+(?=[A-Z`*\"])", " ".join(block)):
                if len(sentence.split()) > 6:
                    yield first, sentence.strip("\0 ")
            block = []
        if line.strip() and not line.startswith(("#", "|--")):
            first = number if not block else first
            block.append(line.strip())


names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
lots = random.Random(seed)
print(f"seed {seed}")
for ending, share in (".h", n // 2), (".md", n - n // 2):
    known = [(name, *found) for name in names if name.endswith(ending) and not name.startswith((*UNREAD, "tests/"))
             for found in sentences(name)]
    for name, line, sentence in lots.sample(known, share):
        print(f"{name}:{line}: {sentence}")
