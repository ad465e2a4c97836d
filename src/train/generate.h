// Text from a model: prompt in, tokens out, with a cache of keys and values.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "tok/tokenizer.h"
#include "train/sample.h"

typedef enum generate_precision {
    GENERATE_AUTO, // bf16 where config.json's dtype or the run that wrote the checkpoint says so
    GENERATE_BF16,
    GENERATE_FP32,
} generate_precision;

typedef struct generate_opts {
    const char *folder; // a Hugging Face folder with its tokenizer
    const char *prompt; // UTF-8; other bytes become U+FFFD
    size_t prompt_bytes;
    int64_t max_tokens; // 0: 200, or as many as the model's context leaves
    sample_opts sampling;
    int64_t seed;
    const char *const *stops; // texts that end a sample and are not part of it
    int n_stops;
    generate_precision precision;
    const char *backend;
} generate_opts;

// A model that is ready to continue its prompt; single owner.
typedef struct generator generator;

// Loads the model and runs the prompt. Fails when the prompt does not fit, so nothing of it needs
// to be printed before. `opts` must outlive the generator.
DRV_CHECKED drv_status generator_open(arena *a, const generate_opts *opts, generator **out);
void generator_close(generator *g);
int64_t generator_prompt_tokens(const generator *g);
double generator_prompt_s(const generator *g); // time that the prompt took
bool generator_is_bf16(const generator *g);

typedef struct generate_result {
    str text;     // without the stop text
    id_list ids;  // new tokens; an end-of-text token is not among them
    bool stopped; // by an end-of-text token or a stop text; otherwise by max_tokens
    double seconds;
} generate_result;

// One continuation; `index` 0, 1, ... gives others of the same prompt and seed. Each piece of valid
// UTF-8 goes to `emit` (NULL: none) as soon as it cannot be the beginning of a stop text.
DRV_CHECKED drv_status generator_run(generator *g, int64_t index,
        void (*emit)(void *ctx, const char *text, size_t n), void *ctx, generate_result *out);
void generate_result_free(generate_result *r);
