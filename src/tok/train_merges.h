// The merging half of BPE training (arXiv:1508.07909, algorithm 1): the most frequent pair of
// neighbouring symbols becomes a symbol, again and again. Ties go to the smaller pair, and a pair
// whose text is a symbol already gives that one, as in Hugging Face's BpeTrainer: the merges are
// the same.
#pragma once
#include "tok/train_words.h"

typedef struct bpe_symbol {
    size_t at; // of its bytes in `text`
    size_t n;
} bpe_symbol;

typedef struct bpe_merges {
    bpe_symbol *symbols; // first those that were given
    int64_t n_symbols;
    str text;
    int32_t (*merges)[2];
    int64_t n_merges, cap_merges;
} bpe_merges;

// Needs about so much memory for a word of n bytes: BPE_BYTES_PER_WORD + n * BPE_BYTES_PER_BYTE.
enum { BPE_BYTES_PER_WORD = 64, BPE_BYTES_PER_BYTE = 32 };

// `out` begins with symbols for the specials and then the 256 bytes: byte_symbol[b]. Merges until
// there are n_symbols or no pair occurs min_frequency times. Takes `words` apart.
void bpe_merge(word_counts *words, const int32_t byte_symbol[256], int64_t n_symbols,
        int64_t min_frequency, bpe_merges *out);
void bpe_merges_free(bpe_merges *m);
