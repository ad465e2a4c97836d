// Whether ranks that should have the same weights have them.
#pragma once
#include "train/programs.h"

// Compares hashes of this rank's weights, and of the masters that it has whole, with those of the
// ranks that hold the same. Nothing on a single rank. All ranks call it between the same steps.
// DRV_E_DATA names the step, the weight and the ranks; a rank that sees no difference gets DRV_OK,
// so all have to agree on the outcome.
DRV_CHECKED drv_status replicas_check(const programs *p, int64_t step);
