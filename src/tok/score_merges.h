// Derives merges from the scores of a sentencepiece vocabulary, as transformers does
// (generate_merges): every way to split a token into two tokens is a merge. Merges are ordered by
// the score of the whole, then by the lengths of the parts in characters, largest first.
#pragma once
#include "base/arena.h"
#include "base/str.h"

typedef struct score_merge {
    int32_t left, right, whole; // tokens
    int32_t n_left, n_right;    // characters
} score_merge;

// Lists the merges, in `a`. All `tokens` must be distinct. With `types` (piece_type; NULL: none),
// only those that make normal pieces.
void score_merges(arena *a, const str_view *tokens, const float *scores, const uint8_t *types,
        int64_t n_tokens, score_merge **out, int64_t *n_out);

// An index from text to token, in an arena; of equal tokens it has the first.
typedef struct token_index {
    const str_view *tokens;
    uint64_t *hashes; // of the tokens
    int32_t *slots;   // -1: free
    uint64_t mask;
} token_index;
void token_index_build(arena *a, const str_view *tokens, int64_t n, token_index *out);
int32_t token_index_find(const token_index *index, const char *p, size_t n); // -1: none
