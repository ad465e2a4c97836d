// sentencepiece's BPE model (its src/bpe_model.cc, version 0.2.3), for models that a list of merges
// cannot express: a merge may involve characters that are not pieces, an unused piece is merged and
// then split again, or a control piece of one character matches no text. All other models use
// merges as tokenizer.json does (score_merges.h).
#pragma once
#include "tok/piece_model.h"
#include "tok/tokenizer.h"

typedef struct piece_bpe piece_bpe; // immutable

// Returns whether a list of merges would give other ids than the model.
bool piece_bpe_is_needed(arena *a, const piece_model *pieces);
// Makes the model. `tok` has, or will have, the vocabulary of `pieces`; both must outlive the
// result.
piece_bpe *piece_bpe_make(arena *a, const piece_model *pieces, const tokenizer *tok);
// Appends the ids of a normalised text without user-defined pieces, as unigram_encode does.
void piece_bpe_encode(const piece_bpe *model, const void *text, size_t n_bytes, id_list *out,
        offset_list *begins);
