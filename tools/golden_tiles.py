#!/usr/bin/env python3
"""Makes tests/golden/tiles.txt: what TDPBF16PS gives, by a model of it in whole numbers and fractions that shares nothing
with src/kernels/levels/tiles_plain.h. Needs Python alone.

    python3 tools/golden_tiles.py tests/golden/tiles.txt

A line is a sum, 16 words of a row of a, 16 words of a column of b (low half: the even element) and the sum afterwards,
all in hexadecimal; "nan" is any NaN. The operation is that of Intel's SDM, volume 2, TDPBF16PS: two chains of FMAs from
0, of even and of odd elements, added, and added to the sum; each rounded to nearest even, denormal numbers taken as 0
and flushed to 0.
"""
import random, sys
from fractions import Fraction

NAN = "nan"
LARGEST = (2 - Fraction(1, 2**23)) * 2**127


def value(bits):
    """(sign, Fraction | "inf" | NAN) of a float; a denormal number is 0."""
    sign, exponent, fraction = bits >> 31, bits >> 23 & 255, bits & 0x7FFFFF
    if exponent == 255:
        return sign, NAN if fraction else "inf"
    return sign, Fraction((fraction | 1 << 23) * 2**exponent, 2**150) if exponent else Fraction(0)


def rounded(sign, size):
    """The bits of the float nearest to a positive fraction, ties to even, 0 where that is denormal."""
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2)**exponent:
        exponent -= 1
    scaled = size / Fraction(2)**(exponent - 23)
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)
    if whole == 1 << 24:
        whole, exponent = 1 << 23, exponent + 1
    if exponent > 127:
        return sign << 31 | 0x7F800000
    return sign << 31 | (0 if exponent < -126 else (exponent + 127) << 23 | (whole - (1 << 23)))


def add(x, y):
    """Bits of x + y, of (sign, value)."""
    if NAN in (x[1], y[1]) or (x[1] == y[1] == "inf" and x[0] != y[0]):
        return NAN
    for part in (x, y):
        if part[1] == "inf":
            return part[0] << 31 | 0x7F800000
    total = (-1)**x[0] * x[1] + (-1)**y[0] * y[1]
    if total == 0:
        both = x[1] == 0 and y[1] == 0
        return (x[0] & y[0] if both else 0) << 31
    return rounded(int(total < 0), abs(total))


def times(x, y):
    sign = x[0] ^ y[0]
    if NAN in (x[1], y[1]) or {"inf", 0} == {x[1], y[1]}:
        return sign, NAN
    return sign, "inf" if "inf" in (x[1], y[1]) else x[1] * y[1]


def of(bits):
    return (0, NAN) if bits == NAN else value(bits)


def dot(c, a, b):
    chains = [0, 0]
    for word_a, word_b in zip(a, b):
        for half, shift in ((0, 16), (1, 0)):
            x, y = (value(word << shift & 0xFFFF0000) for word in (word_a, word_b))
            chains[half] = add(times(x, y), of(chains[half]))
    return add(value(c), of(add(of(chains[0]), of(chains[1]))))


def bf16(rng, low, high):
    """A random bf16 with an exponent from low to high."""
    return rng.getrandbits(1) << 15 | (rng.randint(low, high) + 127) << 7 | rng.getrandbits(7)


SPECIAL = [0, 0x8000, 0x0001, 0x807F, 0x0080, 0x8080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0x3F80, 0xBF80]
SPECIAL_SUMS = [0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
                0x7FC00000, 0x3F800001]


def cases():
    rng = random.Random(1)
    for low, high in ((-2, 2), (-20, 20), (-126, 127), (-66, -60), (-64, -63), (60, 64)):
        for _ in range(16):
            yield rng.getrandbits(32) & 0xBFFFFFFF, *[[bf16(rng, low, high) | bf16(rng, low, high) << 16
                                                       for _ in range(16)] for _ in range(2)]
    for share in (0.05, 0.3):  # special numbers among others
        for _ in range(16):
            yield rng.choice(SPECIAL_SUMS), *[[sum((rng.choice(SPECIAL) if rng.random() < share else bf16(rng, -3, 3)) << s
                                                   for s in (0, 16)) for _ in range(16)] for _ in range(2)]
    one, none = 0x3F80, [0] * 14
    for sum_bits in SPECIAL_SUMS:  # beside nothing, and beside one number
        for x in SPECIAL:
            if x in (0, 0x8000, 0x7F80, 0xFF7F, 0x0001):
                yield sum_bits, [x, 0] + none, [one, 0] + none
    # 2^-126 less n / 128 of 2^-151: half of the last bit that 24 bits have below 2^-126
    for n in (64, 127, 128, 129, 192, 255):
        for sign in (0, 0x8000):
            power = 127 - 76 - (n < 128)
            fraction = (n if n >= 128 else 2 * n) & 0x7F
            yield 0, [0x2000 | sign, (power << 7 | fraction) ^ 0x8000 ^ sign] + none, [0x2000, 127 - 75 << 7] + none
    yield 0x3F800000, [0x3380, 0] + none, [one, 0] + none  # 1 + 2^-24: a tie, to even
    yield 0x3F800001, [0x3380, 0] + none, [one, 0] + none  # and up
    yield 0x3F800000, [0x3380, 0x2000] + none, [one, one] + none
    yield 0, [0x7F00, 0x7F00] + none, [one, 0xBF80] + none  # cancels: +0
    yield 0x80000000, [0x8000, 0x8000] + none, [one, one] + none


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        for c, a, b in cases():
            after = dot(c, a, b)
            words = [f"{w:x}" for w in [c, *a, *b]]
            out.write(" ".join(words + [after if after == NAN else f"{after:x}"]) + "\n")
