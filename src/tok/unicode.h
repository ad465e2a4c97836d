// Code points and their classes, for tokenizers. The classes are those of Hugging Face's regular
// expressions: libraries know different versions of Unicode.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CP_LETTER = 1, CP_NUMBER = 2, CP_SPACE = 4 }; // \p{L}, \p{N}, \s

// Decodes one code point of valid UTF-8 and moves *p past it.
uint32_t utf8_next(const unsigned char **p);
// Appends to out (at least 4 bytes); returns the length.
int utf8_put(uint32_t cp, unsigned char *out);
// The classes of all code points, 0 to 0x10FFFF.
const uint8_t *cp_table(void);
// White space as Python's str.strip and the \s of its re know it.
static inline bool cp_is_python_space(uint32_t cp) {
    return (cp_table()[cp] & CP_SPACE) || (cp >= 0x1c && cp <= 0x1f);
}

// Length of the longest valid prefix of s[0..n).
size_t utf8_valid_prefix(const unsigned char *s, size_t n);
bool utf8_valid(const void *s, size_t n);
