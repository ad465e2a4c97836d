// Decides whether two models are equivalent: runs the same prompts through both and compares the
// logits, within the error that rounding the weights explains.
#pragma once
#include "convert/replay.h"

typedef struct comparison {
    char hash_a[33], hash_b[33]; // model_hash
    const char *type_a, *type_b; // as most weights are stored
    int64_t tokens, vocab;
    double max_abs;   // of the differences of logits
    double rms;       // of the differences, over that of the logits around their mean
    double kl;        // KL(A || B) in nats, mean over tokens
    double kl_max;    // of any token
    int64_t same_top; // tokens whose likeliest next token is the same
    double top_gap;   // where it is not: how much likelier A has its own, in logits, at most
    double bound_rms, bound_max_abs; // what rounding explains; 0: bits must be equal
    double effect;       // of A's adapter, as `rms` between A and its base alone; 0: no adapter
    const char *weight;  // one that differs by more than rounding explains, in words; NULL: none
    const char *problem; // NULL: the two are the same model, within the bounds
} comparison;

// Replays `model_a` and `model_b`; what the result holds lives in `a`. `exact_a`: B was made from
// A, so only B's type rounds; otherwise the coarser type of both counts. A difference is not a
// failure: `problem` says it. DRV_E_DATA: one of them cannot be read, or its values are not finite.
DRV_CHECKED drv_status compare_models(arena *a, const model *model_a, const model *model_b,
        bool exact_a, comparison *out);

// Returns one JSON object; the caller owns it.
json_t *comparison_json(const comparison *c, const char *a, const char *b);
