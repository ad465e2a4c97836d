// The merging half of BPE training (arXiv:1508.07909, algorithm 1): the most frequent pair of
// adjacent symbols becomes a symbol, again and again. Ties go to the smaller pair, and a pair whose
// text already is a symbol becomes that symbol, as in Hugging Face's BpeTrainer, so that the merges
// are the same.
#pragma once
#include "tok/train_words.h"

typedef struct bpe_symbol {
    size_t at; // offset of its bytes in `text`
    size_t n;
} bpe_symbol;

typedef struct bpe_merges {
    bpe_symbol *symbols; // the given ones first
    int64_t n_symbols;
    str text;
    int32_t (*merges)[2];
    int64_t n_merges, cap_merges;
} bpe_merges;

// Merging takes about BPE_BYTES_PER_WORD + n * BPE_BYTES_PER_BYTE of memory for a word of n bytes.
enum { BPE_BYTES_PER_WORD = 64, BPE_BYTES_PER_BYTE = 32 };

// Merges until there are n_symbols or no pair occurs min_frequency times; frees `words`. `out`
// already has the symbols of the special tokens and of the 256 bytes, byte_symbol[b].
void bpe_merge(word_counts *words, const int32_t byte_symbol[256], int64_t n_symbols,
        int64_t min_frequency, bpe_merges *out);
void bpe_merges_free(bpe_merges *m);
