// Checks that replicas of a weight are equal on all ranks that hold it, and that all weights are
// finite.
#pragma once
#include "weights/held_model.h"

// Compares hashes of this rank's weights, and of the masters that it has whole, with those of the
// ranks that hold the same. Nothing on a single rank. All ranks call it between the same steps.
// DRV_E_DATA names the step, the weight and the ranks; a rank that sees no difference gets DRV_OK,
// so all have to agree on the outcome.
DRV_CHECKED drv_status replicas_check(const held_model *model, int64_t step);

// Checks the values of weights. DRV_E_DATA: a weight of this rank, or a master, is NaN or infinite
// after this step; names it. No later step can mend that, since all gradients become so. For one
// rank or for several, each alone.
DRV_CHECKED drv_status replicas_check_finite(const held_model *model, int64_t step);
