// Sums up the config of a run for whoever watches it.
#pragma once
#include "base/arena.h"
#include "config/config.h"

// Reads RUN_DIR/config.yaml for as many ranks as the run's table has (1 without one). False: it is
// not there or cannot be used any more; drv_message says why.
bool run_about_config(arena *a, const char *run_dir, run_config *out);
// "15.2 M parameters, bf16, tensor 2 x data 4"; "" where the config is of no use. *bubble: the
// share of a step in which the schedule of its pipeline leaves a rank idle, 0 without a pipeline.
const char *run_about(arena *a, const char *run_dir, double *bubble);
