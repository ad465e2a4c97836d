#!/usr/bin/env python3
"""Checks that the lines of the pages (*.md) have at most 120 columns, and wraps paragraphs and list items with longer lines.

    tools/wrap_docs.py --check     prints longer lines and marks of conflicts, and fails if there are any
    tools/wrap_docs.py             rewrites the pages

Tables, code, headings, HTML, comments and longer words stay unchanged. Results of measurements (bench/results) and the output of the
program (docs/keys.md) are skipped.
"""
import pathlib, re, subprocess, sys

WIDTH = 120
root = pathlib.Path(__file__).resolve().parent.parent
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])\s+")


def pages():
    try:
        names = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):  # a tarball
        names = [str(p.relative_to(root)) for p in root.rglob("*.md") if not p.relative_to(root).parts[0].startswith("build")]
    return [root / n for n in names if not n.startswith("bench/results") and n != "docs/keys.md" and (root / n).exists()]


def too_long(line):
    """Longer than the page is wide, though it could be broken."""
    return len(line) > WIDTH and " " in line.strip()[: WIDTH - (len(line) - len(line.lstrip()))].strip()


def fixed(line):
    """Neither a paragraph nor an item of a list."""
    s = line.lstrip()
    return not s or s.startswith(("|", "#", "<", ">", "    ", "![")) or set(s) <= set("-=")


def blocks(lines):
    """(first, end, may be wrapped) of each run of lines that belong together."""
    i, code, comment = 0, False, False
    while i < len(lines):
        if lines[i].lstrip().startswith("```"):
            code = not code
        if lines[i].startswith("<!--") or comment:  # commands that tests run first
            comment = "-->" not in lines[i]
            yield i, i + 1, False
            i += 1
            continue
        if code or lines[i].lstrip().startswith("```") or fixed(lines[i]):
            yield i, i + 1, False
            i += 1
            continue
        end = i + 1
        while end < len(lines) and not fixed(lines[end]) and not ITEM.match(lines[end]) and not lines[end].lstrip().startswith("```"):
            end += 1
        yield i, end, True
        i = end


def wrapped(block):
    m = ITEM.match(block[0])
    first = m[0] if m else re.match(r"\s*", block[0])[0]
    rest = " " * len(first)
    words = " ".join([block[0][len(first):], *block[1:]]).split()
    out, line = [], []
    for word in words:
        # What would begin a list or a heading at the beginning of a line takes the word before it along.
        begins = re.match(r"^([-*+#>|]+|\d+[.)])$", word)
        if line and len(rest) + len(" ".join([*line, word])) > WIDTH:
            kept = line[-1:] if begins else []
            out.append(" ".join(line[: len(line) - len(kept)]))
            line = kept
        line.append(word)
    out.append(" ".join(line))
    return [first + out[0], *(rest + text for text in out[1:])]


bad = 0
for page in pages():
    lines = page.read_text().split("\n")
    new = []
    for k, line in enumerate(lines):
        if "--check" in sys.argv and line.startswith(("<<<<<<< ", ">>>>>>> ")):
            print(f"{page.relative_to(root)}:{k + 1}: the mark of a conflict between branches")
            bad += 1
    for first, end, may in blocks(lines):
        block = lines[first:end]
        long_ones = [k for k in range(first, end) if may and too_long(lines[k])]
        for k in long_ones:
            if "--check" in sys.argv:
                print(f"{page.relative_to(root)}:{k + 1}: {len(lines[k])} columns, expected {WIDTH}; tools/wrap_docs.py wraps it")
                bad += 1
        new += wrapped(block) if long_ones else block
    if "--check" not in sys.argv and new != lines:
        page.write_text("\n".join(new))
if "--check" in sys.argv:
    print(f"docs: {len(pages())} pages, {bad} problems")
sys.exit(bad > 0)
