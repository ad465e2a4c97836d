// Learning rate by step.
#pragma once
#include "config/config.h"

// Returns the learning rate of step 1, 2, ...: warm-up lr * step / W with W = config_warmup_steps
// (or as schedule.warmup_like says), then by type: lr itself, or down towards min_lr, which a step
// after the last one of the decay would have.
double schedule_lr(const run_config *cfg, int64_t step);
// Warns in one line of a warm-up that the run does not reach the end of.
void schedule_warn(const run_config *cfg);
