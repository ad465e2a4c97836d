// Sets of code points that a class of a regular expression matches, in the Unicode version of
// Hugging Face's regular expressions (unicode.h), not in that of a library.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { N_CODE_POINTS = 0x110000 };

typedef struct code_set { // 136 KiB: on the heap or in an arena
    uint64_t bits[N_CODE_POINTS / 64];
} code_set;

static inline bool code_set_has(const code_set *s, uint32_t cp) {
    return s->bits[cp >> 6] >> (cp & 63) & 1;
}

void code_set_add(code_set *s, uint32_t first, uint32_t last);
void code_set_unite(code_set *s, const code_set *other);
void code_set_intersect(code_set *s, const code_set *other);
void code_set_subtract(code_set *s, const code_set *other);
void code_set_complement(code_set *s);
bool code_set_is_empty(const code_set *s);

// Adds the code points of \p{name}: a general category, its first letter ("L"), the long name of
// either, or a script. Case, spaces, '-' and '_' are ignored, as in Oniguruma. Returns false if the
// name is unknown.
bool code_set_add_property(code_set *into, const char *name, size_t n_name);
// Adds the code points of \w: outside brackets also superscript digits and fractions of Latin 1.
void code_set_add_word(code_set *s, bool brackets);
void code_set_add_spaces(code_set *s); // \s

// Appends the set as PCRE2 writes it inside brackets: \x{9}-\x{D}\x{20}. Surrogates are left out.
void code_set_print(const code_set *s, str *out);
