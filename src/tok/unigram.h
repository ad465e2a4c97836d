// The unigram model of sentencepiece (src/unigram_model.cc there, EncodeOptimized) and of
// tokenizers (src/models/unigram/model.rs, likewise): of all ways to cut a text into pieces the one
// with the largest sum of scores, in the arithmetic of those programs.
#pragma once
#include "tok/tokenizer.h"

typedef struct unigram_pieces {
    const str_view *pieces; // by id
    const bool *found;      // a text may have the piece
    const double *scores;
    int32_t n;
    int32_t unknown;
    double unknown_score;   // of a character that is no piece
    const int32_t *byte_id; // of each byte, -1: none; NULL: what is unknown has no bytes
    bool escapes_spaces;    // a space of the text is U+2581 in pieces
    // As tokenizers has it: scores are added up in double precision, and unknown neighbours are one
    // piece, which may be known, and have bytes if all of them are tokens. Else as sentencepiece
    // (version 0.2.3): in single precision, and each is a piece; all bytes are tokens.
    bool of_tokenizers;
} unigram_pieces;

typedef struct unigram unigram; // immutable

// Makes the model; the lists have to live as long as it.
unigram *unigram_make(arena *a, const unigram_pieces *given);
// Appends the ids of a normalised text, with a space for U+2581 where the model writes spaces so;
// and to `begins`, where each begins in the text; NULL. What is unknown gives the unknown id, once
// for neighbours, or the tokens of its bytes.
void unigram_encode(const unigram *model, const void *text, size_t n_bytes, id_list *out,
        offset_list *begins);
