// The unigram model of sentencepiece (its src/unigram_model.cc, EncodeOptimized) and of Hugging
// Face's tokenizers (its src/models/unigram/model.rs): finds the way to split a text into pieces
// that has the largest sum of scores, in the arithmetic of these programs.
#pragma once
#include "tok/tokenizer.h"

typedef struct unigram_pieces {
    const str_view *pieces; // by id
    const bool *found;      // whether a text may contain the piece
    const double *scores;
    int32_t n;
    int32_t unknown;
    double unknown_score;   // of a character that is not a piece
    const int32_t *byte_id; // id of each byte, -1: none; NULL: no byte fallback
    bool escapes_spaces;    // pieces write a space of the text as U+2581
    // True, as in tokenizers: sums are in double precision; adjacent unknown characters are one
    // piece, which may be known, or falls back to bytes if all of them are tokens. False, as in
    // sentencepiece 0.2.3: sums are in single precision; each is a piece, and all bytes are tokens.
    bool of_tokenizers;
} unigram_pieces;

typedef struct unigram unigram; // immutable

// Makes the model; the lists must outlive it.
unigram *unigram_make(arena *a, const unigram_pieces *given);
// Appends the ids of a normalised text, with a space for U+2581 if the model escapes spaces, and to
// `begins`, unless NULL, the offset at which each begins. An unknown character gives the tokens of
// its bytes, or the unknown id, once for adjacent ones.
void unigram_encode(const unigram *model, const void *text, size_t n_bytes, id_list *out,
        offset_list *begins);
