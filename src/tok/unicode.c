// UTF-8 and the classes of code points.
#include "tok/unicode.h"

#include <pthread.h>
#include <string.h>
#include <utf8proc.h>

uint32_t utf8_next(const unsigned char **p) {
    const unsigned char *s = *p;
    if (s[0] < 0x80) {
        *p = s + 1;
        return s[0];
    }
    if (s[0] < 0xE0) {
        *p = s + 2;
        return (uint32_t)(s[0] & 0x1F) << 6 | (s[1] & 0x3Fu);
    }
    if (s[0] < 0xF0) {
        *p = s + 3;
        return (uint32_t)(s[0] & 0x0F) << 12 | (uint32_t)(s[1] & 0x3F) << 6 | (s[2] & 0x3Fu);
    }
    *p = s + 4;
    return (uint32_t)(s[0] & 7) << 18 | (uint32_t)(s[1] & 0x3F) << 12 |
           (uint32_t)(s[2] & 0x3F) << 6 | (s[3] & 0x3Fu);
}

int utf8_put(uint32_t cp, unsigned char *out) {
    return (int)utf8proc_encode_char((utf8proc_int32_t)cp, out);
}

static const struct {
    uint32_t first, last;
    uint8_t class;
} classes[] = {
#include "tok/unicode_classes.inc"
};
static uint8_t table[0x110000];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        memset(table + classes[i].first, classes[i].class, classes[i].last - classes[i].first + 1);
}

const uint8_t *cp_table(void) {
    pthread_once(&once, fill);
    return table;
}

// Length of the well-formed character at s (Unicode 15, table 3-7), at most n bytes; 0: none.
static size_t character(const unsigned char *s, size_t n) {
    const unsigned char c = s[0];
    if (c < 0x80) return 1;
    if (c < 0xC2 || c > 0xF4) return 0;
    const size_t k = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (n < k) return 0;
    const unsigned char low = c == 0xE0   ? 0xA0
                              : c == 0xF0 ? 0x90
                                          : 0x80,
                        high = c == 0xED   ? 0x9F
                               : c == 0xF4 ? 0x8F
                                           : 0xBF;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < k; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    return k;
}

size_t utf8_valid_prefix(const unsigned char *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        uint64_t x;
        if (n - i >= 8 && (memcpy(&x, s + i, 8), (x & 0x8080808080808080ull) == 0)) {
            i += 8;
            continue;
        }
        const size_t k = character(s + i, n - i);
        if (!k) break;
        i += k;
    }
    return i;
}

bool utf8_valid(const void *s, size_t n) {
    return utf8_valid_prefix(s, n) == n;
}
