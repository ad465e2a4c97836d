// Trains a byte-level BPE tokenizer (arXiv:1508.07909, on bytes as in GPT-2): counts the words of
// texts on all threads, then merges. Writes the files that Hugging Face loads.
#pragma once
#include "tok/split.h"
#include "tok/token_role.h"
#include "tok/tokenizer.h"

#define BPE_TRAINER_MEMORY     (4ll << 30)
#define BPE_TRAINER_MIN_MEMORY (96ll << 20)

typedef struct bpe_trainer_opts { // texts belong to the caller and outlive the trainer
    int64_t vocab_size;
    int64_t min_frequency;       // a pair is merged only if it occurs this often
    const char *pattern;         // NULL: GPT-2's
    const char *const *specials; // valid UTF-8, all distinct; they get the first ids
    int n_specials;
    const char *role[N_TOKEN_ROLES]; // the special token of each role; NULL: none
    bool begin_with_bos;             // encoding puts BOS before each text, as in Llama 3
    int64_t memory;                  // bytes that the process may take; 0: BPE_TRAINER_MEMORY
} bpe_trainer_opts;

typedef struct bpe_trainer bpe_trainer;
bpe_trainer *bpe_trainer_new(const bpe_trainer_opts *o);
void bpe_trainer_free(bpe_trainer *t);

// Counts the words of a text. Each thread in [0, par_threads()) may do so at the same time.
void bpe_trainer_add(bpe_trainer *t, const text_piece *p, int thread);
// Spills counts to disk if they exceed their memory. Call it between parallel sections.
DRV_CHECKED drv_status bpe_trainer_relieve(bpe_trainer *t);
// Merges, and writes tokenizer.json, tokenizer_config.json and special_tokens_map.json into `dir`.
DRV_CHECKED drv_status bpe_trainer_finish(bpe_trainer *trainer, const char *dir, int64_t *n_vocab);
