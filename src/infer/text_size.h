// Counts the bytes and words of text in the tokens of a data set that an evaluation predicts.
// Losses per byte and per word compare models with different tokenizers.
#pragma once
#include "data/set/rows.h"
#include "tok/tokenizer.h"

typedef struct token_text { // the text of one id
    int32_t bytes;          // of its text; 0 for a special token
    int32_t begins;         // words in it that begin after white space which is also in it
    bool after_space;       // text that follows it begins a word
    bool is_space;          // it begins with white space
} token_text;

typedef struct text_size {
    token_text *id; // [n], in the arena; NULL: nothing is known
    int32_t n;
    int64_t bytes, words; // so far
} text_size;

// Opens the tokenizer of a model's folder. If there is none, or a data set was built with another
// one, nothing is known.
DRV_CHECKED drv_status text_size_open(arena *a, const char *folder, const rows *r, text_size *out);
// Adds the text of `id`, which follows `before`. A word is counted where it begins. Special tokens
// have no text, and the text after one begins a word.
void text_size_add(text_size *size, int32_t before, int32_t id);
