// Trains a byte-level BPE tokenizer (arXiv:1508.07909, on bytes as in GPT-2): counts the words of
// texts on all threads, then merges. Writes the files that Hugging Face loads.
#pragma once
#include "tok/token_role.h"
#include "tok/tokenizer.h"

#define BPE_TRAINER_MEMORY     (4ll << 30)
#define BPE_TRAINER_MIN_MEMORY (96ll << 20)

// The patterns by which words are split, for bpe_trainer_opts.
extern const char split_pattern_gpt2[], split_pattern_llama3[];

typedef struct bpe_trainer_opts { // texts belong to the caller and outlive the trainer
    int64_t vocab_size;
    int64_t min_frequency;           // of a pair that is merged
    const char *pattern;             // NULL: GPT-2's
    const char *const *specials;     // valid UTF-8, no two the same; they get the first ids
    int n_specials;                  //
    const char *role[N_TOKEN_ROLES]; // the special token of each role; NULL: none
    bool begin_with_bos;             // encoding puts BOS before a text, as Llama 3's does
    int64_t memory;                  // bytes that the process may take; 0: BPE_TRAINER_MEMORY
} bpe_trainer_opts;

typedef struct bpe_trainer bpe_trainer;
bpe_trainer *bpe_trainer_new(const bpe_trainer_opts *o);
void bpe_trainer_free(bpe_trainer *t);

// Counts the words of a text; each thread in [0, par_threads()) may do so at the same time.
void bpe_trainer_add(bpe_trainer *t, const text_piece *p, int thread);
// Between parallel sections: keeps the counts within the memory that they may take.
DRV_CHECKED drv_status bpe_trainer_relieve(bpe_trainer *t);
// Merges, and writes tokenizer.json, tokenizer_config.json and special_tokens_map.json into `dir`.
DRV_CHECKED drv_status bpe_trainer_finish(bpe_trainer *trainer, const char *dir, int64_t *n_vocab);
