// Generates text: draws tokens one after the other until an end.
#pragma once
#include "base/json.h"
#include "infer/generator.h"
#include "infer/sample.h"

typedef struct generate_opts {
    int64_t max_tokens; // new ones; 0: as many as the generator's capacity leaves
    sample_opts sampling;
    int64_t seed;
    int64_t index;            // 0, 1, ...: selects different draws for the same sequence and seed
    const char *const *stops; // texts that end the answer and are not part of it
    int n_stops;
    // Receives each piece of valid UTF-8 as soon as it cannot be the beginning of a stop text. May
    // be NULL.
    void (*emit)(void *ctx, const char *text, size_t n);
    void *ctx; // for `emit`
} generate_opts;

typedef enum generate_end {
    GENERATE_LENGTH,      // max_tokens, or the capacity
    GENERATE_STOP,        // an end-of-text token or a stop text
    GENERATE_INTERRUPTED, // generator_interrupted
} generate_end;

typedef struct generate_result {
    str text;    // without the stop text
    id_list ids; // new tokens, those of a stop text among them; an end-of-text token is not
    generate_end end;
    double seconds;
} generate_result;

// Continues the generator's sequence, which generator_prompt has set, and appends the new tokens to
// it. DRV_E_DATA: a logit is NaN or infinite.
DRV_CHECKED drv_status generate(generator *g, const generate_opts *opts, generate_result *out);
void generate_result_free(generate_result *r);
// Returns a text as a new JSON string; bytes that are not UTF-8 become U+FFFD.
json_t *generated_json(const char *text, size_t n);
