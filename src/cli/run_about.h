// Summarises the config of a run for those who watch it.
#pragma once
#include "base/arena.h"
#include "config/config.h"

// Reads RUN_DIR/config.yaml for the number of ranks in the run's table (1 without a table). Returns
// false if it does not exist or cannot be used any more; drv_message says why.
bool run_about_config(arena *a, const char *run_dir, run_config *out);
// Returns "15.2 M parameters, bf16, tensor 2 x data 4"; "": the config cannot be used. *bubble: the
// share of a step in which the pipeline's schedule leaves a rank idle; 0 without a pipeline.
const char *run_about(arena *a, const char *run_dir, double *bubble);
