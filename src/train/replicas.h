// Checks that replicas of a weight are equal on all ranks that hold it, and that all weights are
// finite.
#pragma once
#include "weights/held_model.h"

// Compares hashes of this rank's weights, and of master weights that are not sharded, with those of
// the ranks that hold replicas. Does nothing on a single rank. All ranks call it between the same
// steps. DRV_E_DATA names the step, the weight and the ranks; a rank that sees no difference gets
// DRV_OK, so all have to agree on the outcome.
DRV_CHECKED drv_status replicas_check(const held_model *model, int64_t step);

// Checks the values of weights. DRV_E_DATA names a weight or master weight of this rank that is NaN
// or infinite after this step. Later steps cannot repair it, since all gradients become NaN. Does
// not communicate.
DRV_CHECKED drv_status replicas_check_finite(const held_model *model, int64_t step);
