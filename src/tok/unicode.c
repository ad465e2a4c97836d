#include "tok/unicode.h"

#include <pthread.h>
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

static int classify(uint32_t cp) {
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return CP_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return CP_NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return CP_SPACE;
    default:
        break;
    }
    // White_Space beyond the separators: tab .. carriage return, next line.
    return (cp >= 9 && cp <= 13) || cp == 0x85 ? CP_SPACE : 0;
}

static uint8_t table[0x110000];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
    for (uint32_t cp = 0; cp < 0x110000; cp++)
        table[cp] = (uint8_t)classify(cp);
}

const uint8_t *cp_table(void) {
    pthread_once(&once, fill);
    return table;
}

size_t utf8_valid_prefix(const unsigned char *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        if (s[i] < 0x80) {
            i++;
            continue;
        }
        utf8proc_int32_t cp;
        utf8proc_ssize_t k =
                utf8proc_iterate(s + i, (utf8proc_ssize_t)(n - i > 4 ? 4 : n - i), &cp);
        if (k <= 0) break;
        i += (size_t)k;
    }
    return i;
}
