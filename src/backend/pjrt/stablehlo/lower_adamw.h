// The rules of the update (lower_update.c) share these: the numbers of a step, and the arithmetic
// of AdamW, for state of any type.
#pragma once
#include "backend/pjrt/stablehlo/lower.h"

typedef struct adamw_values { // in fp32 (f64 of f64), in the shape of the weight
    hlo_value p, m, v;
} adamw_values;

// Returns the numbers of norm2 and hyper, inputs norm2_at and norm2_at + 1 of the node.
step_numbers lower_numbers(lowering *l, const node *n, int norm2_at);
// New values of inputs p, m, v, g of the node (0 .. 3), with norm2 and hyper (4 and 5). finite:
// whether the update counts, in the shape of the weight.
adamw_values lower_adamw(lowering *l, const node *n, hlo_value *finite);
// Sets output 0, the new value of p, after which the next weight is updated. A copy of p in another
// type is rounded from this value, so that all is one pass over memory; where the update does not
// count it is the old copy.
void lower_updated(lowering *l, const node *n, hlo_value p);
