#!/usr/bin/env python3
"""Writes split patterns (of known models, odd ones by hand, random ones) with the bytes at which Hugging Face tokenizers (Oniguruma)
cuts some texts, for tests/test_oniguruma.c. One JSON object a line: first {"texts": [...]}, then {"pattern",
"cuts": a list a text, or null where Hugging Face refuses the pattern, "must": it may not be refused here}.

    python tools/golden_split_patterns.py tests/golden/tokenizers/patterns.jsonl [--random 150] [--seed 1]
    build/tests/test_oniguruma FILE       checks a larger file, and says how many patterns are refused
"""
import argparse
import json
import random

from tokenizers import Regex, pre_tokenizers

TEXTS = [
    "Hello, World's  1984\nI'LL don'T we'Ve  xyz09afGH\r\n\r\n  end.  \n", "  a\tb\v\f\x85\u00a0\u2028\u180e\u200b x_y-z a-b [a] {b} ^$ &&a{,2}aaa",
    "aßb ſs K k ﬁ fi st ﬆ İi ı Straße STRASSE", "日本語とカタカナ、ひらがな。한국어 Ωμέγα Привет עברית ภาษาไทย हिन्दी العربية",
    "é e\u0301 ñ Ⅷ ² ½ ٣ Ǆ ǅ ʼn ﬀ \U0001f600\U0001f468\u200d\U0001f469 \U0002a6d6 \U00031350 \U00016d40 \u1c89 \ua7da", "camelCaseHTMLParser snake_case x=y+1;//!?…“q”", "\n", "", "\n\nab\nab\n",
]
KNOWN = [  # GPT-2, GPT-4, o200k, Llama 3, Qwen 2, DeepSeek (three), Kimi, StarCoder's digits, and how they vary
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+x",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\p{N}{1,3}", r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"[一-龥぀-ゟ゠-ヿ]+", r"\s+$",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[0-9][0-9][0-9]|[^0-9]+", r"(\s)", r"\w+|[^\w\s]+", r"\b", r"\B", r"\bab\b", r"(?<=\p{L})(?=\p{N})", r"(?=[A-Z])", r"(?<!\w)a|b(?!\w)", r"\h+", r"\H+", r"\d+|\D", r"^a", r"b$", r"^", r"$",
    r"a{,2}", r"a{2,}", r"a{2}?", r"a{1,3}?", r"a{1,2}+", r"[a-z&&[^aeiou]]+", r"[^a-z&&[aeiou]]+", r"[^\W\d_]+", r".", r"(?m:.)+", r"(?m).+", r"(?i)k|fa|xs", r"(?i:[a-z])+", r"(?i:[KS])",
    r"\A\s*", r"\s*\z", r"\s*\Z", r"\x41|\x{e9}|\u00df", r"(?>a+)b", r"a++", r"\v|\f", r"x*", r"[\p{^L}]", r"\P{Lu}+", r"\p{Uppercase_Letter}", r"\p{ l }+", r"[-a]+|[b-]+", r"(?-i:a)", r"\S+|\s", r"[\s\S]{1,5}", r"\p{C}|\p{Co}|\p{Cn}",
    *[rf"\p{{{x}}}" for x in "L M N P S Z Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Thai Devanagari".split()],
]
ODD = [r"(?s).", r"\p{Script=Han}", r"\p{L&}", r"\K", r"a\Kb", r"\R", r"\X", r"\N", r"\G", r"\1", r"(a)\1", r"\pL", r"(?i:ss)", r"(?i:s(?:s))", r"(?i:st)", r"(?i:fi)", r"(?i:[^s])", r"(?i:ß)", r"(?i:é)", r"x(?i)a|b", r"(?<=a+)x",
       r"a**", r"(?:a*)*b", r"[]a]", r"[a-\d]", r"a{", r"[[:alpha:]]", r"[&&a]", r"[a&&]", r"(?x:a b)", r"(?<n>a)", r"(?~a)", r"\p{Alpha}", r"\xe9", r"\Qa\E", r"(?#x)a", r"[\d-z]", r"\p{Any}", r"(?R)", r"(?|a)", r"a)", r"(a", r"[a", "\\", r"*", r"a{3,1}", r"\cA", r"\101", r"(?^:a)",
       r"\o{101}", r"\g{1}", r"\p{IsL}", r"\p{Lu", r"[\Q]", r"(*ANY)a", r"(*UCP)a", r"a{2,3}{2}", r"(?P<n>a)", r"[[.a.]]", r"\p{Xan}", r"\C", r"[\h-\H]", r"\Ba\b", r"(?:^)*", r"(?:a|)+"]
ATOMS = ["a", "b", "s", "k", "f", "i", "t", "A", "ß", "é", "日", "'", " ", "\\n", "\\.", "\\-", "\\x41", "\\x{e9}", "\\u3042", ".", "\\d", "\\D", "\\s", "\\S", "\\w", "\\W", "\\h", "\\H", "\\b", "\\B", "^", "$", "\\A",
         "\\z", "\\Z", "\\p{L}", "\\p{Lu}", "\\p{N}", "\\P{L}", "\\p{^Nd}", "\\p{P}", "\\p{Han}", "\\p{Latin}", "\\p{M}", "]", "}", "-", "&", "\\K", "\\R", "\\v", "{", "\\e", "/"]
ITEMS = ["a", "b", "z", "s", "k", "A-Z", "a-f", "0-9", "-", "&", "\\s", "\\S", "\\d", "\\w", "\\W", "\\h", "\\H", "\\p{L}", "\\P{L}", "\\p{Ll}", "\\p{^Lu}", "\\p{Han}", "\\p{N}", "\\r\\n", "日", "一-龥", "é", "ß", "'", "^", "\\]", "\\-", "\\x20-\\x40", "[b-d]", "[^a]", "[^\\p{L}]", "[", "]", "\\v", "_"]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "++", "?+", "*+", "{2}", "{1,3}", "{,2}", "{2,}", "{1,2}?", "{2}?", "{1,3}+", "{,}", "{2", "**"]


def klass(rng):
    text = "[" + "^" * (rng.random() < .35) + "".join(rng.choice(ITEMS) for _ in range(rng.randrange(1, 5)))
    while rng.random() < .25:
        text += "&&" + "".join(rng.choice(ITEMS) for _ in range(rng.randrange(1, 3)))
    return text + "]"


def part(rng, depth):
    x = rng.random()
    if x < .3:
        text = klass(rng)
    elif x < .5 and depth < 3:
        text = rng.choice(["(", "(?:", "(?:", "(?i:", "(?i:", "(?m:", "(?-i:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?im:"]) + pattern(rng, depth + 1) + ")"
    else:
        text = rng.choice(ATOMS)
    return text + (rng.choice(QUANTIFIERS) if rng.random() < .3 else "")


def pattern(rng, depth=0):
    front = rng.choice(["(?i)", "(?m)", "(?s)"]) if depth == 0 and rng.random() < .05 else ""
    return front + "|".join("".join(part(rng, depth) for _ in range(rng.randrange(1, 4))) for _ in range(rng.choice([1, 1, 2, 3])))


def cuts(regex):
    """The bytes at which words begin, of each text; None: refused."""
    try:
        split = pre_tokenizers.Split(Regex(regex), "isolated")
    except Exception:
        return None
    return [[len(t[:a].encode()) for _, (a, b) in split.pre_tokenize_str(t) if b > a] for t in TEXTS]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("file")
    p.add_argument("--random", type=int, default=150)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    rng = random.Random(a.seed)
    patterns = [(x, True) for x in KNOWN] + [(x, False) for x in ODD + [pattern(rng) for _ in range(a.random)]]
    with open(a.file, "w") as f:
        f.write(json.dumps(dict(texts=TEXTS)) + "\n")
        for text, must in patterns:
            try:
                found = cuts(text)
            except BaseException:  # it panics where a match takes too long
                continue
            f.write(json.dumps(dict(pattern=text, cuts=found, must=must), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
