// Text from a model: prompt in, tokens out, with a cache of keys and values.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "tok/tokenizer.h"

typedef struct generate_opts {
    const char *folder; // a Hugging Face folder with its tokenizer
    const char *prompt;
    int64_t max_tokens;
    double temperature; // 0: the most likely token
    double top_p;       // 1: all
    int64_t seed;
    const char *backend;
    void (*emit)(void *ctx, const char *text, size_t n);
    void *ctx;
} generate_opts;

typedef struct generate_stats {
    int64_t prompt_tokens, new_tokens;
    double prefill_s, decode_s;
} generate_stats;

DRV_CHECKED drv_status generate(arena *a, const generate_opts *o, generate_stats *out);
