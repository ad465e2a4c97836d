// Summarises the config of a run for those who watch it, and finds the parts of drover report that
// are not in the run's files: its plan, its config, samples of its model.
#pragma once
#include "base/arena.h"
#include "config/config.h"
#include "watch/views/run_report.h"

// Reads RUN_DIR/config.yaml for the number of ranks in the run's table (1 without a table). Returns
// false if it does not exist or cannot be used any more; drv_message says why.
bool run_about_config(arena *a, const char *run_dir, run_config *out);
// Returns "15.2 M parameters, bf16, tensor 2 x data 4"; "": the config cannot be used. *bubble: the
// share of a step in which the pipeline's schedule leaves a rank idle; 0 without a pipeline.
const char *run_about(arena *a, const char *run_dir, double *bubble);

// If config.yaml cannot be used any more, the facts that depend on it are not known. Lives in `a`.
report_facts report_facts_find(arena *a, const char *run_dir);
// Adds n texts by the newest checkpoint, with temperature 0.8 and top p 0.95, the same ones each
// time; if that fails, the facts say why.
void report_facts_sample(arena *a, const char *run_dir, int64_t n, report_facts *facts);
