#!/usr/bin/env python3
"""Damages Arrow files at random, from a seed, and gives each to `drover data build`, which must read it or refuse it in one line
with status 2, and never ends by a signal or a sanitizer. Prints how often each happened.

    tools/harm_arrow.py DROVER TOKENIZER [COUNT] [SEED]      (TOKENIZER: a folder; drover tokenizer train makes one)
"""
import collections, concurrent.futures, pathlib, random, re, struct, subprocess, sys, tempfile

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/arrow"
TEMPLATE = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
ODD = [0, 1, -1, 2**31 - 1, -2**31, 2**32 - 1, 2**63 - 1, -2**63, 7, 255]


def harmed(rng, good):
    """The same bytes but for one to four places."""
    data = bytearray(good)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2 and len(data) > 16:  # a number, where numbers lie
            at = min(at, len(data) - 8) & ~7
            data[at:at + 8] = struct.pack("<q", rng.choice([o for o in ODD if o < 2**63]))
        elif kind == 3 and len(data) > 16:
            at = min(at, len(data) - 4) & ~3
            data[at:at + 4] = struct.pack("<I", rng.choice(ODD) & 0xFFFFFFFF)
        elif kind == 4:
            del data[at:]
        else:
            n = rng.randrange(64)
            data[at:at + n] = rng.randbytes(rng.randrange(64))
        if not data:
            break
    return bytes(data)


def give(command, path, sft, text):
    path.write_bytes(text)
    out = path.with_suffix(".set")
    words = command + ["--out", str(out), "--input", str(path)]
    if sft:
        words += ["--sft", "--template", str(path.parent / "template")]
    ended = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
    lines = [line for line in ended.stderr.decode(errors="replace").splitlines() if line.startswith("drover: ")]
    refused = ended.returncode == 2 and len(lines) == 1 and str(path) in lines[0]
    for left in path.parent.glob(path.stem + "*"):
        if left != path:
            left.unlink()
    if ended.returncode == 0 and not lines:
        return "read"
    if refused:
        return "refused: " + re.sub(r"[-0-9]+", "N", lines[0].split(".arrow", 1)[1])[:60]
    kept = pathlib.Path(f"harmed-{path.stem}.arrow")
    kept.write_bytes(text)
    return f"WRONG ({kept}): status {ended.returncode}, {ended.stderr[-500:]!r}"


def main():
    drover, tokenizer = sys.argv[1:3]
    count, seed = (int(x) for x in (sys.argv[3:] + ["10000", "1"][len(sys.argv[3:]):]))
    rng = random.Random(seed)
    goods = [(p, p.read_bytes()) for p in sorted(GOLDEN.rglob("*.arrow"))]
    command = [drover, "data", "build", "--tokenizer", tokenizer, "--workers", "1"]
    became = collections.Counter()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        given = []
        (pathlib.Path(folder) / "template").write_text(TEMPLATE)
        for i in range(count):
            source, good = rng.choice(goods)
            sft = source.stem in ("chat", "roles") or source.parent.name == "saved_labels"
            given.append(pool.submit(give, command, pathlib.Path(folder) / f"x{i}.arrow", sft, harmed(rng, good)))
        for future in given:
            became[future.result()] += 1
    for words, n in became.most_common():
        print(f"{n:6} {words}")
    wrong = sum(n for words, n in became.items() if words.startswith("WRONG"))
    print(f"{count} harmed files (seed {seed}): {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
