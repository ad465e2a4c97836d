// Shared by the two halves of the translator: oniguruma.c (groups, quantifiers) and
// oniguruma_class.c (characters and character classes).
#pragma once
#include "base/arena.h"
#include "tok/code_set.h"
#include "tok/oniguruma.h"

typedef struct onig {
    const char *where, *pattern;
    const char *p; // the next character; the pattern ends with a NUL
    arena *mem;    // of this translation
    str *out;      // the pattern for PCRE2
    bool fold;     // (?i)
    bool dot_all;  // (?m)
    bool behind;   // inside a lookbehind
    int depth;     // of groups and classes
    int n_classes; // so far
} onig;

// Fails with "... byte N: `what` is not supported"; `from` points into the pattern.
drv_status onig_refuse(const onig *tr, const char *from, const char *what);
// Refuses nesting that is too deep, and patterns with too many classes.
DRV_CHECKED drv_status onig_enter(onig *tr);

// Reads the character for which an escape stands; tr->p is after the backslash. DRV_E_DATA: the
// escape is not one character.
DRV_CHECKED drv_status onig_escaped(onig *tr, uint32_t *cp);
// Returns whether the letter after a backslash names a class.
bool onig_names_class(char letter);
// Translates one class; tr->p is at its "[", at the backslash of \d and the like, or at ".".
DRV_CHECKED drv_status onig_class(onig *tr);
// Writes one character, under (?i) with its other cases. `from`: its position, for messages.
DRV_CHECKED drv_status onig_literal(onig *tr, const char *from, uint32_t cp);
