// Used by the rules of the update: the numbers of a step, and the arithmetic of AdamW for state of
// any type (lower_update.c).
#pragma once
#include "backend/pjrt/stablehlo/lower.h"

typedef struct adamw_values { // in fp32 (f64 of f64), in the shape of the weight
    hlo_value p, m, v;
    hlo_value finite; // whether the norm is, and the values above apply
    hlo_value g;      // the cleared gradient, in its own type
} adamw_values;

// Returns the numbers of a step from norm2 and hyper, inputs norm2_at and norm2_at + 1 of the node.
step_numbers lower_numbers(lowering *l, const node *n, int norm2_at);
// Repeats a truth value of the step for each element of `like`.
hlo_value lower_truths(hlo_text *h, hlo_value truth, const hlo_value *like);
// Returns zeros to replace a sum of gradients. The kernel of the update, which reads the sum,
// writes them; XLA would write constants by kernels of their own, and copy them.
hlo_value lower_sum_cleared(hlo_text *h, const step_numbers *s, hlo_value sum);
// Computes the new values of inputs p, m, v, g of the node (0 .. 3) from norm2 and hyper (4 and 5).
adamw_values lower_adamw(lowering *l, const node *n);
// Sets output 0 to the new value of p; the next weight is updated after it. The caller rounds a
// copy of p in another type from this value, so that the update is one pass over memory.
void lower_updated(lowering *l, const node *n, hlo_value p);
