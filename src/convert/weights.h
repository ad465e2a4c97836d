// Compares the weights of two models, value by value. Prompts cannot reveal a damaged row of a
// token that they do not contain, and the bound on logits may hide a wrong norm.
#pragma once
#include "convert/model.h"

// Returns the largest relative error of rounding to a type: half a unit in the last place. For
// quantised types it is relative to the largest of a block, some three times its root mean square.
double weights_roundoff(const char *type);

// Returns the error of rounding below a type's normal range, which does not depend on the number:
// half a unit of the subnormal range.
double weights_floor(const char *type);

// Finds the first weight that differs by more than rounding explains; describes its name, place and
// values in `a`; NULL: none. `exact_a`: B was made from A by rounding once; otherwise both may be
// rounded, and B's sums may be of another arithmetic (a merge by PEFT in bf16). Leaves out weights
// that A's adapter changes. Reads all of both. DRV_E_DATA: one cannot be read.
DRV_CHECKED drv_status weights_difference(arena *a, const model *model_a, const model *model_b,
        bool exact_a, const char **difference);
