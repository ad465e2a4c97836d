#include "tok/split.h"

#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tok/unicode.h"

const char split_pattern_gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char split_pattern_llama3[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// Class of the code point at p and where it ends. ASCII needs no decoding.
static inline int class_at(const unsigned char *p, const unsigned char **next) {
    static const uint8_t ascii[128] = {['\t'] = CP_SPACE,
            ['\n'] = CP_SPACE,
            ['\v'] = CP_SPACE,
            ['\f'] = CP_SPACE,
            ['\r'] = CP_SPACE,
            [' '] = CP_SPACE,
            ['0'] = CP_NUMBER,
            ['1'] = CP_NUMBER,
            ['2'] = CP_NUMBER,
            ['3'] = CP_NUMBER,
            ['4'] = CP_NUMBER,
            ['5'] = CP_NUMBER,
            ['6'] = CP_NUMBER,
            ['7'] = CP_NUMBER,
            ['8'] = CP_NUMBER,
            ['9'] = CP_NUMBER,
            ['a'] = 1,
            ['b'] = 1,
            ['c'] = 1,
            ['d'] = 1,
            ['e'] = 1,
            ['f'] = 1,
            ['g'] = 1,
            ['h'] = 1,
            ['i'] = 1,
            ['j'] = 1,
            ['k'] = 1,
            ['l'] = 1,
            ['m'] = 1,
            ['n'] = 1,
            ['o'] = 1,
            ['p'] = 1,
            ['q'] = 1,
            ['r'] = 1,
            ['s'] = 1,
            ['t'] = 1,
            ['u'] = 1,
            ['v'] = 1,
            ['w'] = 1,
            ['x'] = 1,
            ['y'] = 1,
            ['z'] = 1,
            ['A'] = 1,
            ['B'] = 1,
            ['C'] = 1,
            ['D'] = 1,
            ['E'] = 1,
            ['F'] = 1,
            ['G'] = 1,
            ['H'] = 1,
            ['I'] = 1,
            ['J'] = 1,
            ['K'] = 1,
            ['L'] = 1,
            ['M'] = 1,
            ['N'] = 1,
            ['O'] = 1,
            ['P'] = 1,
            ['Q'] = 1,
            ['R'] = 1,
            ['S'] = 1,
            ['T'] = 1,
            ['U'] = 1,
            ['V'] = 1,
            ['W'] = 1,
            ['X'] = 1,
            ['Y'] = 1,
            ['Z'] = 1};
    if (*p < 0x80) {
        *next = p + 1;
        return ascii[*p];
    }
    *next = p;
    return cp_class(utf8_next(next));
}

static const unsigned char *run_of(int cls, const unsigned char *p, const unsigned char *end) {
    const unsigned char *next;
    while (p < end && class_at(p, &next) == cls)
        p = next;
    return p;
}

// Length of an English contraction at p ("'s" ...), 0 if there is none. fold: also in capitals;
// with
// (?i:) the long s U+017F folds to s.
static size_t contraction(const unsigned char *p, const unsigned char *end, int fold) {
    if (*p != '\'' || end - p < 2) return 0;
    int a = p[1], b = end - p > 2 ? p[2] : 0;
    if (fold && a == 0xC5 && b == 0xBF) return 3;
    if (fold && a >= 'A' && a <= 'Z') a += 32;
    if (fold && b >= 'A' && b <= 'Z') b += 32;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// \s+(?!\S)|\s+ : a run of spaces gives its last one to the word that follows.
static const unsigned char *spaces(const unsigned char *p, const unsigned char *end) {
    const unsigned char *stop = p, *last = p, *next;
    while (stop < end && class_at(stop, &next) == CP_SPACE)
        last = stop, stop = next;
    return stop < end && last > p ? last : stop;
}

static size_t next_gpt2(const unsigned char *s, const unsigned char *end) {
    size_t c = contraction(s, end, 0);
    if (c) return c;
    const unsigned char *first = s + (*s == ' ' && s + 1 < end), *next;
    int cls = class_at(first, &next);
    if (cls == CP_SPACE) return (size_t)(spaces(s, end) - s);
    return (size_t)(run_of(cls, next, end) - s);
}

static size_t next_llama3(const unsigned char *s, const unsigned char *end) {
    size_t c = contraction(s, end, 1);
    if (c) return c;
    const unsigned char *next, *after;
    int cls = class_at(s, &next);
    if (cls == CP_LETTER) return (size_t)(run_of(CP_LETTER, next, end) - s);
    if (cls == CP_NUMBER) {
        for (int i = 1; i < 3 && next < end && class_at(next, &after) == CP_NUMBER; i++)
            next = after;
        return (size_t)(next - s);
    }
    // One character that is no line end may lead a word of letters.
    if (*s != '\r' && *s != '\n' && next < end && class_at(next, &after) == CP_LETTER)
        return (size_t)(run_of(CP_LETTER, after, end) - s);
    const unsigned char *first = s + (*s == ' ' && s + 1 < end);
    if (class_at(first, &next) == 0) {
        const unsigned char *p = run_of(0, next, end);
        while (p < end && (*p == '\r' || *p == '\n'))
            p++;
        return (size_t)(p - s);
    }
    // \s*[\r\n]+ : up to the last line end of the run of spaces.
    const unsigned char *stop = run_of(CP_SPACE, s, end), *line = NULL;
    for (const unsigned char *p = s; p < stop; p++)
        if (*p == '\r' || *p == '\n') line = p + 1;
    return (size_t)((line ? line : spaces(s, end)) - s);
}

static size_t next_digits(const unsigned char *s, const unsigned char *end) {
    const unsigned char *p = s, *next;
    if (class_at(p, &next) == CP_NUMBER) return (size_t)(next - s);
    while (p < end && class_at(p, &next) != CP_NUMBER)
        p = next;
    return (size_t)(p - s);
}

size_t split_next(split_kind kind, const unsigned char *s, size_t n) {
    switch (kind) {
    case SPLIT_GPT2:
        return next_gpt2(s, s + n);
    case SPLIT_LLAMA3:
        return next_llama3(s, s + n);
    case SPLIT_DIGITS:
        return next_digits(s, s + n);
    default:
        return n;
    }
}

drv_status split_rule_for(const char *where, const char *pattern, split_rule *out) {
    *out = (split_rule){SPLIT_REGEX, NULL};
    if (strcmp(pattern, split_pattern_gpt2) == 0) out->kind = SPLIT_GPT2;
    if (strcmp(pattern, split_pattern_llama3) == 0) out->kind = SPLIT_LLAMA3;
    if (out->kind != SPLIT_REGEX) return DRV_OK;
    int code;
    PCRE2_SIZE at;
    pcre2_code *re = pcre2_compile(
            (PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
    if (!re) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(code, text, sizeof text);
        return drv_fail(DRV_E_DATA, "%s: pattern \"%.60s\" is refused at %zu: %s", where, pattern,
                at, (char *)text);
    }
    pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    out->regex = re;
    return DRV_OK;
}

void split_rule_free(split_rule *r) {
    if (r->regex) pcre2_code_free(r->regex);
    r->regex = NULL;
}

// Matches and what lies between them are words (behaviour "Isolated").
static void split_regex(
        const split_rule *r, const unsigned char *s, size_t n, split_word word, void *ctx) {
    pcre2_match_data *m = pcre2_match_data_create_from_pattern(r->regex, NULL);
    size_t at = 0, done = 0;
    while (at < n && pcre2_match(r->regex, s, n, at, PCRE2_NO_UTF_CHECK, m, NULL) > 0) {
        const PCRE2_SIZE *o = pcre2_get_ovector_pointer(m);
        if (o[0] > done) word(ctx, s + done, o[0] - done);
        if (o[1] > o[0]) word(ctx, s + o[0], o[1] - o[0]);
        done = o[1];
        at = o[1];
        if (o[1] == o[0]) { // an empty match: look further on
            const unsigned char *p = s + at;
            utf8_next(&p);
            at = (size_t)(p - s);
        }
    }
    if (done < n) word(ctx, s + done, n - done);
    pcre2_match_data_free(m);
}

void split_text(const split_rule *r, const unsigned char *s, size_t n, split_word word, void *ctx) {
    if (r->kind == SPLIT_REGEX) {
        split_regex(r, s, n, word, ctx);
        return;
    }
    while (n) {
        size_t k = split_next(r->kind, s, n);
        word(ctx, s, k);
        s += k;
        n -= k;
    }
}
