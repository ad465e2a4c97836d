// Code points and their classes, for tokenizers. The classes are those of Hugging Face's regular
// expressions, since libraries have different versions of Unicode.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CP_LETTER = 1, CP_NUMBER = 2, CP_SPACE = 4 }; // \p{L}, \p{N}, \s

// General categories, in the order of the table of names in code_set.c.
typedef enum cp_category {
    CAT_LU,
    CAT_LL,
    CAT_LT,
    CAT_LM,
    CAT_LO,
    CAT_MN,
    CAT_MC,
    CAT_ME,
    CAT_ND,
    CAT_NL,
    CAT_NO,
    CAT_PC,
    CAT_PD,
    CAT_PS,
    CAT_PE,
    CAT_PI,
    CAT_PF,
    CAT_PO,
    CAT_SM,
    CAT_SC,
    CAT_SK,
    CAT_SO,
    CAT_ZS,
    CAT_ZL,
    CAT_ZP,
    CAT_CC,
    CAT_CF,
    CAT_CS,
    CAT_CO,
    CAT_CN,
    N_CATEGORIES,
} cp_category;

// Decodes one code point of valid UTF-8 and moves *p past it.
uint32_t utf8_next(const unsigned char **p);
// Writes a code point as UTF-8 to out (at least 4 bytes); returns the length.
int utf8_put(uint32_t cp, unsigned char *out);
// Returns the classes of all code points, 0 to 0x10FFFF.
const uint8_t *cp_table(void);
// Returns the general categories (cp_category) of all code points. Surrogates, which no text has,
// have that of their neighbours.
const uint8_t *cp_categories(void);
// Returns whether Python's str.strip and the \s of its re treat a code point as white space.
static inline bool cp_is_python_space(uint32_t cp) {
    return (cp_table()[cp] & CP_SPACE) || (cp >= 0x1c && cp <= 0x1f);
}

// Returns whether Rust's \w matches: letters, marks, decimal digits, connectors, joiners.
bool cp_is_word(uint32_t cp);

// Returns the length of the longest valid prefix of s[0..n).
size_t utf8_valid_prefix(const unsigned char *s, size_t n);
bool utf8_valid(const void *s, size_t n);
