// The BPE model of sentencepiece (src/bpe_model.cc there, version 0.2.3), for models whose pieces
// are no merges of others: a character need be no piece to be merged, an unused piece is merged and
// then taken apart again, and a control piece of one character is found in no text. All others go
// the way of tokenizer.json's merges (score_merges.h).
#pragma once
#include "tok/piece_model.h"
#include "tok/tokenizer.h"

typedef struct piece_bpe piece_bpe; // immutable

// Returns whether merges of pieces give other ids than the model.
bool piece_bpe_is_needed(arena *a, const piece_model *pieces);
// `tok`: whose vocabulary is, or will be, that of the model; both have to live as long as the
// result.
piece_bpe *piece_bpe_make(arena *a, const piece_model *pieces, const tokenizer *tok);
// Appends the ids of a normalised text without user-defined pieces, as unigram_encode does.
void piece_bpe_encode(const piece_bpe *model, const void *text, size_t n_bytes, id_list *out,
        offset_list *begins);
