// Draws the next token from logits, which it changes like transformers' logits processors, in this
// order: repetition penalty, temperature, top k, top p, min p.
#pragma once
#include <stdint.h>

#include "base/arena.h"
#include "base/rng.h"

typedef struct sample_opts {
    double temperature;        // 0: the most likely token, without drawing
    double top_p;              // 1: all
    int64_t top_k;             // 0: all
    double repetition_penalty; // 1: none
    double min_p;              // the least probability, relative to the greatest; 0: all
} sample_opts;

typedef struct sampler sampler; // single owner

sampler *sampler_new(arena *a, const sample_opts *opts, int64_t n_vocab);
// Draws from logits[n_vocab], which it changes; `seen` are the ids so far. `key` and `index`
// determine the random number. Returns -1 if a logit is NaN or all are minus infinity.
int32_t sampler_draw(sampler *self, float *logits, const int32_t *seen, int64_t n_seen,
        const rng_key *key, uint64_t index);
