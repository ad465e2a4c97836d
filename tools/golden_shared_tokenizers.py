#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/stress.jsonl.gz, texts that try every assigned code point, mixes, runs and
random bytes, and shared.json: for each tokenizer of ../shared the number and SHA-256 of the ids (int32,
little endian) that Hugging Face tokenizers gives for those texts and for each file of ../shared/data/text,
and the SHA-256 of what it decodes them to.

    python tools/golden_shared_tokenizers.py ../shared/data tests/golden/tokenizers
"""
import array, gzip, hashlib, json, pathlib, random, sys, unicodedata
import tokenizers
from tokenizers import Tokenizer


def stress():
    rng = random.Random(3)
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    assigned = [c for c in points if unicodedata.category(chr(c)) not in ("Cn", "Co")]
    for i in range(0, len(assigned), 64):
        yield "".join("a%c1 %c." % (c, c) for c in assigned[i:i + 64])
    for i in range(0, 0x20000, 256):  # also those that have no meaning yet
        yield "".join("x%c" % c for c in points[i:i + 256])
    for _ in range(300):
        yield "".join(chr(rng.choice(assigned)) for _ in range(rng.randrange(1, 60)))
    emoji = "😀👍🏽👨‍👩‍👧🇩🇪❤️🏳️‍🌈 a\n1"
    for _ in range(100):
        yield "".join(rng.choice(emoji) for _ in range(40))
    for n in (15, 16, 17, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 65535, 65536):
        for run in " ", "\n", "1", "a", "\t", "é", "日", ".", "\r\n", "ab ", "-=":
            yield run * n
            yield "x" + run * n + "y"
    for _ in range(300):
        yield bytes(rng.randrange(256) for _ in range(120)).decode("utf-8", "replace")
    parts = ["'s", "'LL", "'re", " ", "  ", "\n", "\r\n", "\t", "a", "Zz", "1", "23", "é", "日本", "\u00a0", "\u2003", ".", "!?", "'", "\"", "_", "▁"]
    for _ in range(1000):
        yield "".join(rng.choice(parts) for _ in range(30))


def digest(tokenizer, texts):
    ids, decoded, n = hashlib.sha256(), hashlib.sha256(), 0
    for e in tokenizer.encode_batch(texts):
        ids.update(array.array("i", e.ids).tobytes())
        decoded.update(tokenizer.decode(e.ids, skip_special_tokens=False).encode())
        n += len(e.ids)
    return dict(n=n, ids=ids.hexdigest(), decoded=decoded.hexdigest())


def main(data, out):
    texts = list(stress())
    with open(out / "stress.jsonl.gz", "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0) as z:
        for t in texts:
            z.write(json.dumps(dict(text=t), ensure_ascii=False).encode() + b"\n")
    files = sorted(p for p in (data / "text").rglob("*") if p.is_file())
    made = dict(versions=f"tokenizers {tokenizers.__version__}, Unicode {unicodedata.unidata_version}", tokenizers={})
    for path in sorted(data.rglob("tokenizer.json")):
        t = Tokenizer.from_file(str(path))
        row = made["tokenizers"][str(path.parent.relative_to(data))] = dict(stress=digest(t, texts))
        for f in files:
            row[str(f.relative_to(data))] = digest(t, [f.read_bytes().decode("utf-8", "replace")])
        print(path, flush=True)
    (out / "shared.json").write_text(json.dumps(made, indent=0) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
