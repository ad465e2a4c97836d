// Learning rate by step.
#pragma once
#include "config/config.h"

// Of step 1, 2, ...: warm-up lr * step / warmup_steps, then by type down to min_lr at the last
// step.
double schedule_lr(const run_config *c, int64_t step);
