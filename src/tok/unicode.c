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
    uint32_t first;
    uint8_t category;
} runs[] = {
#include "tok/unicode_categories.inc"
};
static uint8_t classes[0x110000], categories[0x110000];
static pthread_once_t once = PTHREAD_ONCE_INIT;

// tools/unicode_classes.py compares this with Hugging Face.
static uint8_t class_of(int category) {
    if (category <= CAT_LO) return CP_LETTER;
    if (category >= CAT_ND && category <= CAT_NO) return CP_NUMBER;
    return category >= CAT_ZS && category <= CAT_ZP ? CP_SPACE : 0;
}

static void fill(void) {
    const size_t n = sizeof runs / sizeof *runs;
    for (size_t i = 0; i < n; i++) {
        const uint32_t end = i + 1 < n ? runs[i + 1].first : sizeof categories;
        memset(categories + runs[i].first, runs[i].category, end - runs[i].first);
        memset(classes + runs[i].first, class_of(runs[i].category), end - runs[i].first);
    }
    memset(&classes['\t'], CP_SPACE, '\r' - '\t' + 1);
    classes[0x85] = CP_SPACE;
}

const uint8_t *cp_table(void) {
    pthread_once(&once, fill);
    return classes;
}

const uint8_t *cp_categories(void) {
    pthread_once(&once, fill);
    return categories;
}

// Returns the length of the well-formed character at s (Unicode 15, table 3-7), at most n; 0: none.
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

bool cp_is_word(uint32_t cp) {
    const cp_category category = cp_categories()[cp];
    const bool circled = (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
                         (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
    return category <= CAT_NL || category == CAT_PC || circled || cp == 0x200C || cp == 0x200D;
}
