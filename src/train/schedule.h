// Computes the learning rate of each step.
#pragma once
#include "config/config.h"

// Returns the learning rate of step 1, 2, ...: warm-up lr * step / W with W = config_warmup_steps
// (or as schedule.warmup_like says), then by type: constant, or decaying to min_lr, which it
// reaches one step after the last step of the decay.
double schedule_lr(const run_config *cfg, int64_t step);
// Warns if the warm-up is longer than the run.
void schedule_warn(const run_config *cfg);
