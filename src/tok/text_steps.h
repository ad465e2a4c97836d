// The normalisers in the tokenizer.json of unigram models, applied one after the other: the
// compiled rules of sentencepiece (Precompiled), removing white space at the ends (Strip), and
// joining runs of spaces (Replace of " {2,}").
#pragma once
#include "tok/piece_rules.h"

typedef enum text_step_kind {
    STEP_RULES,
    STEP_STRIP_LEFT,
    STEP_STRIP_RIGHT,
    STEP_JOIN_SPACES,
} text_step_kind;

enum { MAX_TEXT_STEPS = 8 };
typedef struct text_steps {
    struct text_step {
        text_step_kind kind;
        const piece_rules *rules; // of STEP_RULES
        const char *content;      // of STEP_JOIN_SPACES: replaces two or more spaces
    } step[MAX_TEXT_STEPS];
    int n; // 0: texts stay as they are
} text_steps;

// Appends the text that the steps make of a text. `origins`: receives the offset in the text from
// which each byte comes; may be NULL.
void text_steps_apply(const text_steps *steps, const void *text, size_t n_bytes, str *out,
        offset_list *origins);
