// Scanners for the split patterns of the model families. They read the letters of ASCII eight bytes
// at a time, and look up other characters in the table of classes.
#include <string.h>

#include "tok/split.h"
#include "tok/unicode.h"

typedef const unsigned char *bytes;

#define EVERY(b) (0x0101010101010101ull * (b))

// Returns the class of the character at p, and in *next its end.
static inline int class_at(bytes p, bytes *next, const uint8_t *cp) {
    if (*p < 0x80) {
        *next = p + 1;
        return cp[*p];
    }
    *next = p;
    return cp[utf8_next(next)];
}

// Returns bit 7 of each byte that is not an ASCII letter; bytes of 0x80 and more are not.
static inline uint64_t not_letters(uint64_t x) {
    const uint64_t low = (x | EVERY(0x20)) & EVERY(0x7F); // upper case folded
    const uint64_t from_a = low + EVERY(0x80 - 'a'), past_z = low + EVERY(0x7F - 'z');
    return (~from_a | past_z | x) & EVERY(0x80);
}

static inline bytes letters(bytes p, bytes end, const uint8_t *cp) {
    for (bytes next;;) {
        while (end - p >= 8) {
            uint64_t x;
            memcpy(&x, p, 8);
            x = not_letters(x);
            if (!x) {
                p += 8;
                continue;
            }
            p += __builtin_ctzll(x) >> 3;
            break;
        }
        if (p == end) return p;
        if (class_at(p, &next, cp) != CP_LETTER) return p;
        p = next;
    }
}

static inline bytes run_of(int cls, bytes p, bytes end, const uint8_t *cp) {
    bytes next;
    while (p < end && class_at(p, &next, cp) == cls)
        p = next;
    return p;
}

// Returns the end of the run of white space that begins at p.
static inline bytes spaces(bytes p, bytes end, const uint8_t *cp) {
    uint64_t x;
    while (end - p >= 8 && (memcpy(&x, p, 8), x == EVERY(' ')))
        p += 8;
    return run_of(CP_SPACE, p, end, cp);
}

// \s+(?!\S)|\s+ : a run of spaces before a word leaves its last one out.
static inline bytes spaces_before(bytes p, bytes stop, bytes end) {
    if (stop == end) return stop;
    bytes last = stop - 1;
    while ((*last & 0xC0) == 0x80)
        last--;
    return last > p ? last : stop;
}

// Returns the length of an English contraction at p ("'s" ...), 0 if there is none. `fold`: also in
// capitals; under (?i:) the long s U+017F folds to s.
static size_t contraction(bytes p, bytes end, bool fold) {
    if (end - p < 2) return 0;
    int a = p[1], b = end - p > 2 ? p[2] : 0;
    if (fold && a == 0xC5 && b == 0xBF) return 3;
    if (fold && a >= 'A' && a <= 'Z') a += 32;
    if (fold && b >= 'A' && b <= 'Z') b += 32;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// Returns a word's end. `single`: each number is a word, and the text before it is split alone.
static inline bytes gpt2(bytes s, bytes end, const uint8_t *cp, bool single) {
    bytes first = s + (*s == ' ' && s + 1 < end), next;
    const int cls = class_at(first, &next, cp);
    if (cls == CP_LETTER) return letters(next, end, cp);
    if (*s == '\'') {
        const size_t c = contraction(s, end, false);
        if (c) return s + c;
    }
    if (cls == CP_NUMBER && single) return first == s ? next : first;
    if (cls != CP_SPACE) return run_of(cls, next, end, cp);
    const bytes stop = spaces(next, end, cp);
    if (single && stop < end && class_at(stop, &next, cp) == CP_NUMBER) return stop;
    return spaces_before(s, stop, end);
}

static bytes scan_gpt2(bytes s, bytes end, const uint8_t *cp) {
    return gpt2(s, end, cp, false);
}

static bytes scan_digits_gpt2(bytes s, bytes end, const uint8_t *cp) {
    return gpt2(s, end, cp, true);
}

static bytes scan_llama3(bytes word, bytes end, const uint8_t *cp) {
    bytes next, after;
    const int cls = class_at(word, &next, cp);
    if (cls == CP_LETTER) return letters(next, end, cp);
    if (cls == CP_NUMBER) {
        for (int i = 1; i < 3 && next < end && class_at(next, &after, cp) == CP_NUMBER; i++)
            next = after;
        return next;
    }
    if (*word == '\'') {
        const size_t c = contraction(word, end, true);
        if (c) return word + c;
    }
    // One character that is not a line end may lead a word of letters.
    const int second = next < end ? class_at(next, &after, cp) : CP_SPACE;
    if (second == CP_LETTER && *word != '\r' && *word != '\n') return letters(after, end, cp);
    if (cls == 0 || (*word == ' ' && second == 0)) {
        bytes p = run_of(0, next, end, cp);
        while (p < end && (*p == '\r' || *p == '\n'))
            p++;
        return p;
    }
    // \s*[\r\n]+ : up to the last line end of the run of spaces.
    const bytes stop = spaces(next, end, cp);
    for (bytes p = stop; p > word; p--)
        if (p[-1] == '\r' || p[-1] == '\n') return p;
    return spaces_before(word, stop, end);
}

static bytes scan_digits(bytes s, bytes end, const uint8_t *cp) {
    bytes p = s, next;
    if (class_at(p, &next, cp) == CP_NUMBER) return next;
    while (p < end && class_at(p, &next, cp) != CP_NUMBER)
        p = next;
    return p;
}

static bytes scan_spaces(bytes s, bytes end, const uint8_t *cp DRV_UNUSED) {
    const bytes p = memchr(s + 1, ' ', (size_t)(end - s - 1));
    return p ? p : end;
}

split_scan split_scanner(split_kind kind) {
    static const split_scan scanners[] = {[SPLIT_GPT2] = scan_gpt2,
            [SPLIT_LLAMA3] = scan_llama3,
            [SPLIT_DIGITS] = scan_digits,
            [SPLIT_DIGITS_GPT2] = scan_digits_gpt2,
            [SPLIT_SPACES] = scan_spaces,
            [SPLIT_REGEX] = NULL};
    return scanners[kind];
}
