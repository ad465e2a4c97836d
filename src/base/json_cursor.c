// Strings, numbers and nesting of JSON text; eight bytes at a time where nothing is escaped.
#include "base/json_cursor.h"

#include <string.h>

enum { MAX_DEPTH = 512 };

static bool fail(json_cursor *cursor, const char *why) {
    if (!cursor->error) cursor->error = why;
    return false;
}

char jc_peek(json_cursor *cursor) {
    while (cursor->p < cursor->end &&
            (*cursor->p == ' ' || *cursor->p == '\t' || *cursor->p == '\n' || *cursor->p == '\r'))
        cursor->p++;
    return cursor->p < cursor->end ? *cursor->p : 0;
}

bool jc_at_end(json_cursor *cursor) {
    jc_peek(cursor);
    return cursor->p == cursor->end;
}

static bool take(json_cursor *cursor, char want, const char *why) {
    if (jc_peek(cursor) != want) return fail(cursor, why);
    cursor->p++;
    return true;
}

// Marks the first of eight bytes that does not stand for itself in a string, by its bit 7; 0: all
// do. Bits of later bytes may be wrong.
static inline uint64_t special(uint64_t x) {
    const uint64_t ones = 0x0101010101010101ull;
    const uint64_t quote = x ^ '"' * ones, slash = x ^ '\\' * ones;
    return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((x - 0x20 * ones) & ~x)) &
           0x80 * ones;
}

// Returns the end of the bytes that stand for themselves.
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

// The characters of escapes of one letter; 0: there is none.
static const char one_letter[128] = {['"'] = '"',
        ['\\'] = '\\',
        ['/'] = '/',
        ['b'] = '\b',
        ['f'] = '\f',
        ['n'] = '\n',
        ['r'] = '\r',
        ['t'] = '\t'};

// Copies while bytes stand for themselves or are escapes of one letter, eight bytes at a time, as
// far as there is room.
static const char *copy_plain(const char *text, const char *end, str *out) {
    str_reserve(out, 1024);
    char *to = out->p + out->n, *limit = out->p + out->cap - 16;
    while (end - text >= 8 && to < limit) {
        uint64_t x;
        memcpy(&x, text, 8);
        memcpy(to, &x, 8);
        x = special(x);
        const int k = x ? __builtin_ctzll(x) >> 3 : 8;
        text += k;
        to += k;
        if (!x) continue;
        const unsigned char letter = *text == '\\' && end - text >= 2 ? (unsigned char)text[1] : 0;
        if (letter >= 128 || !one_letter[letter]) break;
        *to++ = one_letter[letter];
        text += 2;
    }
    out->n = (size_t)(to - out->p);
    *to = 0;
    return text;
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

// Reads what follows a backslash. out NULL: it is only checked.
static bool escape(json_cursor *cursor, str *out) {
    if (cursor->p == cursor->end) return fail(cursor, "a string without an end");
    const unsigned char what = (unsigned char)*cursor->p++;
    if (what != 'u') {
        if (what >= 128 || !one_letter[what]) return fail(cursor, "an unknown escape in a string");
        if (out) str_add(out, &one_letter[what], 1);
        return true;
    }
    int u = hex4(cursor->p, cursor->end);
    if (u < 0) return fail(cursor, "\\u without four hexadecimal digits");
    cursor->p += 4;
    if (u >= 0xD800 && u < 0xDC00 && cursor->end - cursor->p >= 6 && cursor->p[0] == '\\' &&
            cursor->p[1] == 'u') {
        const int low = hex4(cursor->p + 2, cursor->end);
        if (low >= 0xDC00 && low < 0xE000) {
            u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
            cursor->p += 6;
        }
    }
    if (u >= 0xD800 && u < 0xE000) {
        u = 0xFFFD;
        if (out) cursor->bad_surrogates++;
    }
    if (out) put_utf8((uint32_t)u, out);
    return true;
}

static bool walk_string(json_cursor *cursor, str *out) {
    if (!take(cursor, '"', "expected a string")) return false;
    for (;;) {
        if (out) cursor->p = copy_plain(cursor->p, cursor->end, out);
        const char *stop = plain(cursor->p, cursor->end);
        if (out) str_add(out, cursor->p, (size_t)(stop - cursor->p));
        cursor->p = stop;
        if (stop == cursor->end) return fail(cursor, "a string without an end");
        if (*stop != '"' && *stop != '\\') return fail(cursor, "a control character in a string");
        cursor->p++;
        if (*stop == '"') return true;
        if (!escape(cursor, out)) return false;
    }
}

bool jc_string(json_cursor *cursor, str *out) {
    return walk_string(cursor, out);
}

static const char *digits(const char *p, const char *end) {
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

static bool word(json_cursor *cursor, const char *w) {
    const size_t n = strlen(w);
    if ((size_t)(cursor->end - cursor->p) < n || memcmp(cursor->p, w, n) != 0)
        return fail(cursor, "not a JSON value");
    cursor->p += n;
    return true;
}

static bool number(json_cursor *cursor) {
    const char *here = cursor->p, *next;
    if (*here == '-') here++;
    if (here < cursor->end && *here == 'I') { // Python writes and reads these
        cursor->p = here;
        return word(cursor, "Infinity");
    }
    next = digits(here, cursor->end);
    if (next == here) return fail(cursor, "not a JSON value");
    if (next - here > 1 && *here == '0') return fail(cursor, "a number that begins with 0");
    here = next;
    if (here < cursor->end && *here == '.') {
        next = digits(here + 1, cursor->end);
        if (next == here + 1) return fail(cursor, "a number without digits after the point");
        here = next;
    }
    if (here < cursor->end && (*here == 'e' || *here == 'E')) {
        here++;
        if (here < cursor->end && (*here == '+' || *here == '-')) here++;
        next = digits(here, cursor->end);
        if (next == here) return fail(cursor, "a number without digits in its exponent");
        here = next;
    }
    cursor->p = here;
    return true;
}

bool jc_i64(json_cursor *cursor, int64_t *out) {
    jc_peek(cursor);
    const char *begin = cursor->p;
    if (cursor->p == cursor->end || !number(cursor)) return fail(cursor, "expected an integer");
    char text[24];
    const size_t n = (size_t)(cursor->p - begin);
    if (n >= sizeof text) return fail(cursor, "an integer that is too large");
    memcpy(text, begin, n);
    text[n] = 0;
    return str_to_i64(text, out) || fail(cursor, "expected an integer");
}

bool jc_next(json_cursor *cursor, char open, bool *first, str *key) {
    const bool is_object = open == '{';
    if (cursor->error) return false;
    if (*first && !take(cursor, open, is_object ? "expected an object" : "expected an array"))
        return false;
    const char next = jc_peek(cursor);
    if (next == (is_object ? '}' : ']')) {
        cursor->p++;
        return false;
    }
    if (cursor->p == cursor->end)
        return fail(cursor, is_object ? "ends within an object" : "ends within an array");
    if (!*first && !take(cursor, ',', "expected a comma after a value")) return false;
    *first = false;
    if (!is_object) return true;
    if (jc_peek(cursor) != '"') return fail(cursor, "expected a key in double quotes");
    if (key) str_clear(key);
    return walk_string(cursor, key) && take(cursor, ':', "expected a colon after a key");
}

static bool skip(json_cursor *cursor, int depth) {
    if (depth > MAX_DEPTH) return fail(cursor, "nested too deeply");
    bool first = true;
    switch (jc_peek(cursor)) {
    case '{':
    case '[': {
        const char open = *cursor->p;
        while (jc_next(cursor, open, &first, NULL))
            if (!skip(cursor, depth + 1)) return false;
        return !cursor->error;
    }
    case '"':
        return walk_string(cursor, NULL);
    case 't':
        return word(cursor, "true");
    case 'f':
        return word(cursor, "false");
    case 'n':
        return word(cursor, "null");
    case 'N':
        return word(cursor, "NaN");
    case 0:
        return fail(cursor, "ends where a value was expected");
    default:
        return number(cursor);
    }
}

bool jc_skip(json_cursor *cursor) {
    return !cursor->error && skip(cursor, 0);
}
