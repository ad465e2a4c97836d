// Runs fixed prompts through a model that stays on disk: weights are read in pieces of 16 MiB, so a
// model of any size needs the memory of one piece and of the prompts' activations. Everything is
// computed in fp32 by the engine's own ops, so equal weights give equal bits, for any number of
// threads.
//
// Legend: N tokens of all prompts, H hidden_size, V vocab_size.
#pragma once
#include "convert/model.h"
#include "tok/tokenizer.h"

// Prompts one after the other; a position of 0 begins one.
typedef struct replay_prompts {
    int32_t *ids, *position;
    int n, n_texts; // tokens; of the prompts, how many are texts
} replay_prompts;

// Short texts through the tokenizer (NULL: none) and sequences that are drawn from the vocabulary
// by a fixed rule: every model has some of the same.
void replay_prompts_make(arena *a, const tokenizer *t, const model_config *m, replay_prompts *out);
// Describes the first token in which two tokenizers differ, or a prompt that they split
// differently; NULL: none.
const char *replay_tokenizer_difference(arena *a, const tokenizer *t, const tokenizer *other);

typedef struct replay replay; // single owner
// Programs for all models of the shape of `m`.
DRV_CHECKED drv_status replay_open(arena *a, const model_config *m, const replay_prompts *prompts,
        replay **out);
void replay_close(replay *r);
// Computes the last norm's output [N,H]. `what` is for the progress line.
DRV_CHECKED drv_status replay_hidden(replay *r, const model *m, const char *what, float *hidden_NH);
// Logits of the tokens [row, row + n) of the vocabulary, n at most replay_logit_rows: [N, n].
int64_t replay_logit_rows(const replay *r);
DRV_CHECKED drv_status replay_logits(replay *r, const model *m, const float *hidden_NH, int64_t row,
        int64_t n, float *logits);
