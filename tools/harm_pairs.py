#!/usr/bin/env python3
"""Damages bytes and records of files of preference pairs at random, from a seed, and gives each to `drover data build --preference`.
That makes a set that `data verify` accepts, or refuses the file in one line with status 2 and leaves nothing behind, and never ends
by a signal or a sanitizer. Prints how often each happened.

    tools/harm_pairs.py DROVER TOKENIZER [COUNT] [SEED]      (TOKENIZER: a folder; drover tokenizer train makes one)
"""
import collections, concurrent.futures, json, pathlib, random, re, subprocess, sys, tempfile

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/parquet"
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
VALUES = [None, "", " ", "a", "\u0000", "\ud7ff x" * 9, 0, -1, 1e308, True, [], {}, [[]], [None], ["a"], [{}], {"role": "user"},
          [{"role": "assistant", "content": ""}], [{"role": "assistant", "content": "b"}], [{"from": "gpt", "value": "c"}],
          [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
          [{"role": 1, "content": []}], "x" * 70000]
KEYS = ["chosen", "rejected", "prompt", "system", "tools", "conversations", "question", "input", "instruction"]


def harmed_record(rng, line):
    record = json.loads(line)
    for _ in range(rng.choice([1, 1, 2, 3])):
        key = rng.choice(KEYS)
        kind = rng.randrange(4)
        if kind == 0:
            record.pop(key, None)
        elif kind == 1 and key in record:
            record[rng.choice(KEYS)] = record[key]
        else:
            record[key] = rng.choice(VALUES)
    return json.dumps(record, ensure_ascii=rng.random() < 0.5)


def harmed(rng, good, lines):
    """The same bytes but for one to four places, or the same records but for some fields of some of them."""
    if lines and rng.random() < 0.6:
        records = good.decode().splitlines()
        for _ in range(rng.choice([1, 1, 3])):
            at = rng.randrange(len(records))
            records[at] = harmed_record(rng, records[at]) if records[at].startswith("{") else records[at]
        return "\n".join(records).encode("utf-8", "surrogatepass")
    data = bytearray(good)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        else:
            data[at:at + rng.randrange(64)] = rng.randbytes(rng.randrange(64))
        if not data:
            break
    return bytes(data)


def give(command, path, template, data):
    path.write_bytes(data)
    out = path.with_suffix(".set")
    ended = subprocess.run(command + ["--template", template, "--out", str(out), "--input", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
    lines = [line for line in ended.stderr.decode(errors="replace").splitlines() if line.startswith("drover: ")]
    left = [p.name for p in path.parent.glob(path.stem + ".set*")]
    if ended.returncode == 0:
        verified = subprocess.run([command[0], "data", "verify", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            timeout=300)
        right, what = verified.returncode == 0, "made a set"
    else:
        right = ended.returncode == 2 and len(lines) == 1 and str(path) in lines[0] and not left
        what = "refused: " + re.sub(r"[-0-9]+", "N", lines[0].split(path.suffix, 1)[-1])[:70] if lines else ""
    for p in path.parent.glob(path.stem + "*"):
        p.unlink()
    if right:
        return what
    kept = pathlib.Path(f"harmed-{path.name}")
    kept.write_bytes(data)
    return f"WRONG ({kept}, {template}): status {ended.returncode}, left {left}, {ended.stderr[-400:]!r}"


def main():
    drover, tokenizer = sys.argv[1:3]
    count, seed = (int(x) for x in (sys.argv[3:] + ["1000", "1"][len(sys.argv[3:]):]))
    rng = random.Random(seed)
    goods = [(p, p.read_bytes()) for p in sorted(GOLDEN.glob("pairs.*"))]
    command = [drover, "data", "build", "--preference", "--workers", "1", "--tokenizer", tokenizer]
    became = collections.Counter()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        template = pathlib.Path(folder) / "template"
        template.write_text(TEMPLATE)
        given = []
        for i in range(count):
            source, good = rng.choice(goods)
            how = rng.choice([str(template), str(template), "alpaca", "none"])
            given.append(pool.submit(give, command, pathlib.Path(folder) / f"x{i}{source.suffix}", how,
                harmed(rng, good, source.suffix == ".jsonl")))
        for future in given:
            became[future.result()] += 1
    for words, n in became.most_common():
        print(f"{n:6} {words}")
    wrong = sum(n for words, n in became.items() if words.startswith("WRONG"))
    print(f"{count} harmed files of pairs (seed {seed}): {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
