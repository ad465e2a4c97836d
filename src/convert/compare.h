// Decides whether two models are equivalent: runs the same prompts through both and compares the
// logits, within the error that rounding the weights explains.
#pragma once
#include "convert/replay.h"

typedef struct comparison {
    char hash_a[33], hash_b[33]; // of model_hash
    const char *type_a, *type_b; // the type in which most weights are stored
    int64_t tokens, vocab;
    double max_abs;   // of the logits' differences
    double rms;       // of the differences, relative to the logits' deviation from their mean
    double kl;        // KL(A || B) in nats, mean over tokens
    double kl_max;    // the largest of a token
    int64_t same_top; // tokens with the same likeliest next token in both
    double top_gap; // for the other tokens: the most, in logits, by which A prefers its own choice
    double bound_rms, bound_max_abs; // the effect of rounding; 0: bits must be equal
    double effect;       // of A's adapter: `rms` between A and its base alone; 0: no adapter
    const char *weight;  // describes one that differs by more than rounding explains; NULL: none
    const char *problem; // NULL: the two are the same model within the bounds
} comparison;

// Begins a comparison with the configs. Returns whether they are of one model; else `problem` says
// why.
bool compare_configs(arena *a, const model *model_a, const model *model_b, comparison *out);

// Replays `model_a` and `model_b`; what the result holds lives in `a`. `exact_a`: B was made from
// A, so only B's type rounds; otherwise the coarser of both types counts. A difference is not an
// error: `problem` describes it. DRV_E_DATA: one cannot be read, or its values are not finite.
DRV_CHECKED drv_status compare_models(arena *a, const model *model_a, const model *model_b,
        bool exact_a, comparison *out);

// Returns one JSON object; the caller owns it.
json_t *comparison_json(const comparison *c, const char *a, const char *b);
