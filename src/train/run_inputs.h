// Opens the rows of a run's data before its first step, and tries a run's inputs without training.
#pragma once
#include "programs/batch_feed.h"

// Opens the rows to train on and those of evaluations (*valid NULL: there are none);
// sets cfg->steps from training.epochs, and cfg->row_documents if a program depends on it. `say`:
// as in run_inputs_count. The caller closes both, even after a failure (NULL: not open).
// DRV_E_USAGE: there is no data.train. Otherwise fails as rows_open does.
DRV_CHECKED drv_status run_inputs_open(arena *a, run_config *cfg, bool say, rows **train,
        rows **valid);

// Sets cfg->steps if training.epochs is given, from the rows that are left before step `step` + 1.
// `say`: logs the number of steps, and warns of a warm-up that is longer than the run.
void run_inputs_count(run_config *cfg, bool say, const rows *train, int64_t step);

// Sets cfg->row_documents as run_inputs_open does, for programs that are compiled before a run.
// Fails as run_inputs_open does.
DRV_CHECKED drv_status run_inputs_bound(run_config *cfg);

// Counts of a run's rows, those to train on and those of evaluations together.
typedef struct inputs_counts {
    int64_t rows;  // of an epoch
    int64_t pairs; // preference pairs of their data sets, other parts included; 0: none
} inputs_counts;

// Checks whether `drover train` would accept the inputs of cfg: tests run_dir, opens tokenizer and
// data, checks the vocabulary if that is instant, and closes them again. An input that cfg does not
// name is not an error. Sets token ids and steps as a run does; *out is zero if there is no data,
// or after a failure.
DRV_CHECKED drv_status run_inputs_try(run_config *cfg, inputs_counts *out);
