// The rules of the update (lower_update.c) share these: the numbers of a step, and the arithmetic
// of AdamW, for state of any type.
#pragma once
#include "backend/pjrt/stablehlo/lower.h"

typedef struct adamw_values { // in fp32 (f64 of f64), in the shape of the weight
    hlo_value p, m, v;
    hlo_value finite; // whether the update counts
    hlo_value g;      // the gradient, cleared, in its type
} adamw_values;

// Returns the numbers of norm2 and hyper, inputs norm2_at and norm2_at + 1 of the node.
step_numbers lower_numbers(lowering *l, const node *n, int norm2_at);
// A number of the step that is true or false, for each element of `like`.
hlo_value lower_truths(hlo_text *h, hlo_value truth, const hlo_value *like);
// Zeros in the place of a sum of gradients, written by the kernel of the update, which reads the
// sum anyway. Constants XLA would write in kernels of their own, and copy.
hlo_value lower_sum_cleared(hlo_text *h, const step_numbers *s, hlo_value sum);
// New values of inputs p, m, v, g of the node (0 .. 3), with norm2 and hyper (4 and 5).
adamw_values lower_adamw(lowering *l, const node *n);
// Sets output 0, the new value of p, after which the next weight is updated. A copy of p in another
// type is rounded from this value, so that all is one pass over memory; where the update does not
// count it is the old copy.
void lower_updated(lowering *l, const node *n, hlo_value p);
