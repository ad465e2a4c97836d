// The unigram model of sentencepiece (src/unigram_model.cc there, EncodeOptimized): of all ways to
// cut a text into pieces the one with the largest sum of scores, in the arithmetic of that program.
#pragma once
#include "tok/piece_model.h"
#include "tok/tokenizer.h"

typedef struct unigram unigram; // immutable

unigram *unigram_make(arena *a, const piece_model *pieces);
// Appends the ids of a normalised text, with a space for U+2581 where the model writes spaces so;
// and to `begins`, where each begins in the text; NULL. What is unknown gives the unknown id, once
// for neighbours, or the tokens of its bytes.
void unigram_encode(const unigram *model, const void *text, size_t n_bytes, id_list *out,
        offset_list *begins);
