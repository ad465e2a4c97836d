// Counts how much text the tokens of a data set stand for, in bytes and words: of those that an
// evaluation predicts. Measures per byte and word compare models whose tokenizers differ.
#pragma once
#include "data/set/rows.h"
#include "tok/tokenizer.h"

typedef struct token_text { // of one id
    int32_t bytes;          // of its text; none: a special token
    int32_t begins;         // words that begin in it after white space of its own
    bool after_space;       // what comes next begins a word if it is a letter
    bool is_space;          // it begins with white space
} token_text;

typedef struct text_size {
    token_text *id; // [n], in the arena; NULL: nothing is known
    int32_t n;
    int64_t bytes, words; // so far
} text_size;

// Opens the tokenizer of a model's folder. None, or another than a source was built with: nothing
// is known.
DRV_CHECKED drv_status text_size_open(arena *a, const char *folder, const rows *r, text_size *out);
// Adds the text of `id`, which follows `before`. A word counts where it begins; special tokens have
// no text, and what follows one begins a word.
void text_size_add(text_size *size, int32_t before, int32_t id);
