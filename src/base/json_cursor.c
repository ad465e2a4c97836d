// Strings, numbers and nesting of JSON text; eight bytes at a time where nothing is escaped.
#include "base/json_cursor.h"

#include <string.h>

enum { MAX_DEPTH = 512 };

static bool fail(json_cursor *c, const char *why) {
    if (!c->error) c->error = why;
    return false;
}

char jc_peek(json_cursor *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
        c->p++;
    return c->p < c->end ? *c->p : 0;
}

static bool take(json_cursor *c, char want, const char *why) {
    if (jc_peek(c) != want) return fail(c, why);
    c->p++;
    return true;
}

// Bit 7 of the first byte of eight that does not stand for itself in a string; 0: all do. Bits of
// later bytes may be set wrongly.
static inline uint64_t special(uint64_t x) {
    const uint64_t ones = 0x0101010101010101ull;
    const uint64_t quote = x ^ '"' * ones, slash = x ^ '\\' * ones;
    return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((x - 0x20 * ones) & ~x)) &
           0x80 * ones;
}

// The end of a run of bytes that stand for themselves.
static const char *plain(const char *p, const char *end) {
    for (uint64_t x; end - p >= 8; p += 8) {
        memcpy(&x, p, 8);
        x = special(x);
        if (x) return p + (__builtin_ctzll(x) >> 3);
    }
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
        p++;
    return p;
}

// Copies while bytes stand for themselves or are escapes of one letter, eight bytes at a time, as
// far as there is room.
static const char *copy_plain(const char *p, const char *end, str *out) {
    static const char one_letter[128] = {['"'] = '"',
            ['\\'] = '\\',
            ['/'] = '/',
            ['b'] = '\b',
            ['f'] = '\f',
            ['n'] = '\n',
            ['r'] = '\r',
            ['t'] = '\t'};
    str_reserve(out, 1024);
    char *to = out->p + out->n, *limit = out->p + out->cap - 16;
    while (end - p >= 8 && to < limit) {
        uint64_t x;
        memcpy(&x, p, 8);
        memcpy(to, &x, 8);
        x = special(x);
        const int k = x ? __builtin_ctzll(x) >> 3 : 8;
        p += k;
        to += k;
        if (!x) continue;
        const unsigned char letter = *p == '\\' && end - p >= 2 ? (unsigned char)p[1] : 0;
        if (letter >= 128 || !one_letter[letter]) break;
        *to++ = one_letter[letter];
        p += 2;
    }
    out->n = (size_t)(to - out->p);
    *to = 0;
    return p;
}

static int hex4(const char *p, const char *end) {
    static const char digits_of[] = "0123456789abcdefABCDEF";
    int v = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char *d = p[i] ? strchr(digits_of, p[i]) : NULL;
        if (!d) return -1;
        const int k = (int)(d - digits_of);
        v = v * 16 + (k < 16 ? k : k - 6);
    }
    return v;
}

static void put_utf8(uint32_t u, str *out) {
    char b[4];
    size_t n = u < 0x80 ? 1 : u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; u >>= 6)
        b[i] = (char)(0x80 | (u & 0x3F));
    b[0] = (char)(lead[n] | u);
    str_add(out, b, n);
}

// Behind a backslash. out NULL: only checked.
static bool escape(json_cursor *c, str *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (c->p == c->end) return fail(c, "a string without an end");
    const char what = *c->p++;
    if (what != 'u') {
        const char *at = memchr(from, what, sizeof from - 1);
        if (!at) return fail(c, "an unknown escape in a string");
        if (out) str_add(out, &to[at - from], 1);
        return true;
    }
    int u = hex4(c->p, c->end);
    if (u < 0) return fail(c, "\\u without four hexadecimal digits");
    c->p += 4;
    if (u >= 0xD800 && u < 0xDC00 && c->end - c->p >= 6 && c->p[0] == '\\' && c->p[1] == 'u') {
        const int low = hex4(c->p + 2, c->end);
        if (low >= 0xDC00 && low < 0xE000) {
            u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
            c->p += 6;
        }
    }
    if (u >= 0xD800 && u < 0xE000) {
        u = 0xFFFD;
        if (out) c->bad_surrogates++;
    }
    if (out) put_utf8((uint32_t)u, out);
    return true;
}

static bool walk_string(json_cursor *c, str *out) {
    if (!take(c, '"', "expected a string")) return false;
    for (;;) {
        if (out) c->p = copy_plain(c->p, c->end, out);
        const char *stop = plain(c->p, c->end);
        if (out) str_add(out, c->p, (size_t)(stop - c->p));
        c->p = stop;
        if (stop == c->end) return fail(c, "a string without an end");
        if (*stop != '"' && *stop != '\\') return fail(c, "a control character in a string");
        c->p++;
        if (*stop == '"') return true;
        if (!escape(c, out)) return false;
    }
}

bool jc_string(json_cursor *c, str *out) {
    return walk_string(c, out);
}

static const char *digits(const char *p, const char *end) {
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

static bool number(json_cursor *c) {
    const char *p = c->p, *q;
    if (*p == '-') p++;
    q = digits(p, c->end);
    if (q == p) return fail(c, "not a JSON value");
    if (q - p > 1 && *p == '0') return fail(c, "a number that begins with 0");
    p = q;
    if (p < c->end && *p == '.') {
        q = digits(p + 1, c->end);
        if (q == p + 1) return fail(c, "a number without digits behind the point");
        p = q;
    }
    if (p < c->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < c->end && (*p == '+' || *p == '-')) p++;
        q = digits(p, c->end);
        if (q == p) return fail(c, "a number without digits in its exponent");
        p = q;
    }
    c->p = p;
    return true;
}

bool jc_i64(json_cursor *c, int64_t *out) {
    jc_peek(c);
    const char *begin = c->p;
    if (c->p == c->end || !number(c)) return fail(c, "expected an integer");
    char text[24];
    const size_t n = (size_t)(c->p - begin);
    if (n >= sizeof text) return fail(c, "an integer that is too large");
    memcpy(text, begin, n);
    text[n] = 0;
    return str_to_i64(text, out) || fail(c, "expected an integer");
}

static bool word(json_cursor *c, const char *w) {
    const size_t n = strlen(w);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, w, n) != 0) return fail(c, "not a JSON value");
    c->p += n;
    return true;
}

bool jc_next(json_cursor *c, char open, bool *first, str *key) {
    const char close = open == '{' ? '}' : ']';
    if (c->error) return false;
    if (*first && !take(c, open, open == '{' ? "expected an object" : "expected an array"))
        return false;
    const char next = jc_peek(c);
    if (next == close) {
        c->p++;
        return false;
    }
    if (!*first && !take(c, ',', "expected a comma or the end of a list")) return false;
    *first = false;
    if (open == '[') return true;
    if (key) str_clear(key);
    return walk_string(c, key) && take(c, ':', "expected a colon behind a key");
}

static bool skip(json_cursor *c, int depth) {
    if (depth > MAX_DEPTH) return fail(c, "nested too deeply");
    bool first = true;
    switch (jc_peek(c)) {
    case '{':
    case '[': {
        const char open = *c->p;
        while (jc_next(c, open, &first, NULL))
            if (!skip(c, depth + 1)) return false;
        return !c->error;
    }
    case '"':
        return walk_string(c, NULL);
    case 't':
        return word(c, "true");
    case 'f':
        return word(c, "false");
    case 'n':
        return word(c, "null");
    case 0:
        return fail(c, "the end where a value was expected");
    default:
        return number(c);
    }
}

bool jc_skip(json_cursor *c) {
    return !c->error && skip(c, 0);
}
