// Runs fixed prompts through a model that stays on disk: weights are read in pieces of 16 MiB, so a
// model of any size needs only the memory of one piece and of the prompts' activations. The
// engine's own ops compute everything in fp32, so equal weights give equal bits for any number of
// threads.
//
// Legend: N tokens of all prompts, H hidden_size, V vocab_size.
#pragma once
#include "convert/model.h"
#include "tok/tokenizer.h"

// Prompts one after the other; each begins at a position of 0.
typedef struct replay_prompts {
    int32_t *ids, *position;
    int n, n_texts; // tokens; prompts that are texts
} replay_prompts;

// Makes prompts: short texts through the tokenizer (NULL: none), and tokens drawn from the
// vocabulary by a fixed rule, which every model gets.
void replay_prompts_make(arena *a, const tokenizer *t, const model_config *m, replay_prompts *out);
// Describes the first token in which two tokenizers differ, or a prompt that they tokenize
// differently; NULL: none.
const char *replay_tokenizer_difference(arena *a, const tokenizer *t, const tokenizer *other);

typedef struct replay replay; // single owner
// Builds programs for all models of the shape of `m`.
DRV_CHECKED drv_status replay_open(arena *a, const model_config *m, const replay_prompts *prompts,
        replay **out);
void replay_close(replay *r);
// Computes the output of the last norm [N,H]. `what`: the name in the progress line.
DRV_CHECKED drv_status replay_hidden(replay *r, const model *m, const char *what, float *hidden_NH);
// Computes logits of tokens [row, row + n) of the vocabulary: [N, n], n at most replay_logit_rows.
int64_t replay_logit_rows(const replay *r);
DRV_CHECKED drv_status replay_logits(replay *r, const model *m, const float *hidden_NH, int64_t row,
        int64_t n, float *logits);
