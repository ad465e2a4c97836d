// Computes the learning rate of each step.
#pragma once
#include "config/config.h"

// Returns the learning rate of step 1, 2, ...: during the warm-up of W = config_warmup_steps steps
// lr * step / W, or as schedule.warmup_like says; then, by type, constant, or decaying so that it
// would be min_lr one step after the last step of the decay.
double schedule_lr(const run_config *cfg, int64_t step);
// Warns if the warm-up is longer than the run.
void schedule_warn(const run_config *cfg);
