// Normalisers of tokenizer.json that tokenizers of unigram models have, one after the other: the
// compiled rules of sentencepiece (Precompiled), white space taken off the ends (Strip), and runs
// of spaces as one (Replace of " {2,}").
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
        const char *content;      // of STEP_JOIN_SPACES: what two spaces or more become
    } step[MAX_TEXT_STEPS];
    int n; // 0: texts stay as they are
} text_steps;

// Appends what the steps make of a text. `origins`: gets for each byte the place in the text from
// which it comes; NULL.
void text_steps_apply(const text_steps *steps, const void *text, size_t n_bytes, str *out,
        offset_list *origins);
