// The loss of a preference pair (ir/ops/preference.c), whose margin is the reward of the chosen
// response minus that of the rejected one. `smoothing`: the assumed share of pairs with swapped
// responses. The same bits on any processor (base/elementary.h).
#pragma once
#include <stdint.h>

// -(1 - smoothing) log sigmoid(margin) - smoothing log sigmoid(-margin)
double pair_loss(double margin, double smoothing);
// Minus its derivative by the margin.
double pair_pull(double margin, double smoothing);

// Sums over the pairs of an evaluation.
typedef struct pair_sums {
    int64_t n, right;              // pairs, and pairs whose chosen response has the greater reward
    double loss, chosen, rejected; // sums of the losses, and of the rewards of both responses
} pair_sums;
// Sums over n pairs in order. log_probs are of the model, references of the reference, [2 n] each:
// of the chosen and of the rejected response of each pair. NaN: the pair was not seen.
pair_sums pair_sums_of(int64_t n, const double *log_probs, const double *references, double beta,
        double smoothing);
