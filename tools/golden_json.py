#!/usr/bin/env python3
"""Makes tests/golden/json.jsonl: odd JSON, valid and not, and what Python's json has of it. A case: text; dumps, the value as
json.dumps writes it, half surrogates and NULs in keys as U+FFFD, or null where Python refuses the text.

    python tools/golden_json.py tests/golden/json.jsonl [SEED [CASES]]
"""
import json, random, sys

NUMBERS = ["0", "-0", "-0.0", "1", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809",
           "18446744073709551615", "123456789012345678901234567890", "1e999", "-1e999", "1e400", "1E5", "1e-400", "1.5e+3", "0.1",
           "3.0", "1" + "0" * 100 + ".5", "NaN", "Infinity", "-Infinity"]
STRINGS = ['"a\\u0000b"', '"\\ud83d"', '"\\ude00 x"', '"\\ud83d\\ude00"', '"\\uD83Dx\\uDE00"', '"gr\\u00f6\\u00dfe"', '"größe 😀"', '""', '"\\/\\b\\f\\n\\r\\t\\"\\\\"',
           '"\\u2028"', '"\\ufffe"', '"\x7f"']
BAD = ["01", "+1", "1.", ".5", "1e", "- 1", "-NaN", "nan", "infinity", "Infinit", "'a'", '"a', '"\\x41"', '"\\u12"', '"\t"', '"a\nb"', "tru", "undefined", "[1,]", "{,}",
       '{"a" 1}', '{"a":}', "{1: 2}", "[1 2]", "", "//", "0x10", "1_000", "[", "{", "]", "\ufeff1", "1 2"]
NULS = ["\0", "1\0", "1\0]", '{"a": 1}\0x', "[1\0]", "[1]\0", '{"a"\0: 1}', '"a\0b"', "\0{}"]
SPACE = ["", "", " ", "\n", "\t", "\r\n"]


def value(rng, depth):
    kind = rng.random()
    pad = lambda: rng.choice(SPACE)
    if depth < 3 and kind < .25:
        return "[" + pad() + ",".join(pad() + value(rng, depth + 1) + pad() for _ in range(rng.randrange(4))) + pad() + "]"
    if depth < 3 and kind < .5:
        key = lambda: rng.choice(STRINGS + ['"k"', '"k"'])
        return "{" + pad() + ",".join(pad() + key() + pad() + ":" + pad() + value(rng, depth + 1) + pad() for _ in range(rng.randrange(4))) + pad() + "}"
    return rng.choice(NUMBERS) if kind < .75 else rng.choice(STRINGS) if kind < .92 else rng.choice(["true", "false", "null"])


def plain(x, key=False):
    if isinstance(x, str):
        x = "".join("\ufffd" if 0xd800 <= ord(c) < 0xe000 or (key and c == "\0") else c for c in x)
        return x
    if isinstance(x, list):
        return [plain(v) for v in x]
    return {plain(k, True): plain(v) for k, v in x.items()} if isinstance(x, dict) else x


def main(out, seed=1, n=300):
    rng = random.Random(seed)
    texts = NUMBERS + STRINGS + BAD + [value(rng, 0) for _ in range(n)]
    for _ in range(n // 3):
        text, at = value(rng, 0), rng.random()
        texts.append(rng.choice([text + rng.choice(BAD), text[:int(at * len(text))], text.replace(rng.choice(NUMBERS + ['"']), rng.choice(BAD), 1)]))
    texts += NULS
    with open(out, "w", encoding="utf-8") as f:
        for text in texts:
            try:
                dumps = json.dumps(plain(json.loads(text)), ensure_ascii=False)
            except ValueError:
                dumps = None
            f.write(json.dumps(dict(text=text, dumps=dumps)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], *(int(a) for a in sys.argv[2:4]))
