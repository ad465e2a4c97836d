#!/usr/bin/env python3
"""Checks that whatever pages and comments refer to exists: links of pages with their headings, paths of this tree
(src/base/json.h, ops/swiglu.c, tests/train_*.sh), numbers of decisions (ADR 26, docs/adr/0026), and names in the READMEs of
src/ (`hlo_index`). A path belongs to this tree if its first folder does; FOREIGN are paths of other projects that look like
ours."""
import fnmatch, pathlib, re, shutil, subprocess, sys

root = pathlib.Path(__file__).resolve().parent.parent
ENDINGS = r"(?:[chp]y?|sh|md|bash|patch|ini|ya?ml|svg|png)"
PATH = re.compile(rf"(?<![\w/.~$\"}}-])((?:[\w*{{}},-]+/)+[\w*{{}},-]+\.{ENDINGS})(?!\w)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
DECISION = re.compile(r"docs/adr/(\d{4})|\bADR (\d+)")
NAME = re.compile(r"(?<![\w/.-])([a-z]+_[a-z_0-9]+)(?![\w/.-])")
# Sources that cite other projects, by their own paths; pages that make files.
UNREAD = ("bench/results/", "tests/corpus/", "tests/golden/", "tests/translate/", "src/translate/", "docs/extending.md")
FOREIGN = {"docs/gguf.md", "bench/results/DATE-h200.md"}


def tracked():
    if shutil.which("git") and (root / ".git").exists():
        return subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    return [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and not str(p.relative_to(root)).startswith("build")]


def without_blocks(text):
    return re.sub(r"```.*?```", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def headings(path):
    for head in re.findall(r"^#+ (.*)$", without_blocks(path.read_text()), re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head).lower()
        yield re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def alternatives(path):
    m = re.search(r"\{([^}]*)\}", path)
    return [path] if not m else [p for word in m[1].split(",") for p in alternatives(path[:m.start()] + word + path[m.end():])]


def comment(line, name):
    """What of a line is prose: all of a page, the comment of a source."""
    if name.endswith(".md"):
        return line
    m = re.search(r"//(.*)" if name.endswith((".c", ".h")) else r"(?:^|\s)#(.*)", line)
    return m[1] if m else ""


files = tracked()
folders = {part for name in files for part in name.split("/")[:-1]}
decisions = {name[9:13] for name in files if name.startswith("docs/adr/")}
names = {word for name in files if name.endswith((".c", ".h", ".py")) and name.startswith(("src/", "tests/"))
         for word in re.findall(r"\w+", (root / name).read_text())}
names |= {stem for name in files for stem in (pathlib.PurePath(name).stem, pathlib.PurePath(name).stem.removeprefix("fuzz_"))}
bad, n_links, n_paths = [], 0, 0
for name in files:
    if not name.endswith((".md", ".c", ".h", ".py", ".sh", ".bash")) or name.startswith(UNREAD):
        continue
    text = (root / name).read_text()
    body = without_blocks(text) if name.endswith(".md") else ""
    for m in LINK.finditer(body):
        file, _, heading = m[1].partition("#")
        if re.match(r"[a-z]+:", m[1]):
            continue
        n_links += 1
        target = (root / name).parent / file if file else root / name
        if not target.exists() or heading and target.suffix == ".md" and heading not in headings(target):
            bad.append(f"{name}:{body.count(chr(10), 0, m.start()) + 1}: {m[1]} leads nowhere")
    for number, line in enumerate(text.splitlines(), 1):
        if name.startswith("src/") and name.endswith(".md"):
            bad += [f"{name}:{number}: {word} is no name in the code" for code in re.findall(r"`([^`]+)`", line)
                    for word in NAME.findall(code) if word not in names]
        line = re.sub(r"https?://\S+|\]\([^)]*\)", "", comment(line, name))
        for m in DECISION.finditer(line):
            if (m[1] or m[2].zfill(4)) not in decisions:
                bad.append(f"{name}:{number}: {m[0]} is not there")
        for m in PATH.finditer(line):
            if m[1].split("/")[0] not in folders or m[1] in FOREIGN:
                continue
            n_paths += 1
            for path in alternatives(m[1]):
                if not any(fnmatch.filter(files, pattern) for pattern in (path, "src/" + path, "*/" + path)):
                    bad.append(f"{name}:{number}: {path} is not there")
print("\n".join(bad + [f"pages: {n_links} links and {n_paths} paths, {len(bad)} problems"]))
sys.exit(bool(bad))
