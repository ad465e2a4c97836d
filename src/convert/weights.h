// Compares the weights of two models, value by value: prompts cannot reveal a damaged row of a
// token that they do not contain, and the bound on logits is wider than a wrong norm.
#pragma once
#include "convert/model.h"

// Largest relative error of rounding to a type: half a unit in the last place. Quantised types
// round relative to the largest of a block, which is some three times its root mean square.
double weights_roundoff(const char *type);

// Returns the error of rounding below a type's normal range, whatever the size of the number: half
// a unit of the subnormal range.
double weights_floor(const char *type);

// Finds the first weight that differs by more than rounding explains, by name, place and values, in
// `a`; NULL: none. `exact_a`: B was made from A by rounding once; else both may be rounded, B's
// sums even in another arithmetic (a merge of PEFT's in bf16). Weights that A's adapter changes are
// left out. Reads all of both. DRV_E_DATA: one cannot be read.
DRV_CHECKED drv_status weights_difference(arena *a, const model *model_a, const model *model_b,
        bool exact_a, const char **difference);
