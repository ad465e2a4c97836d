// Opens what a run reads before its first step: the rows of its data, and the tokenizer that is
// carried.
#pragma once
#include "programs/batch_feed.h"

// Opens the rows to train on and those of evaluations (*valid NULL: there are none);
// training.epochs become cfg->steps, and cfg->row_documents is set where a program depends on it.
// `say`: as run_inputs_count. The caller closes both, of a failure too (NULL: not open).
// DRV_E_USAGE: there is no data.train; others as rows_open.
DRV_CHECKED drv_status run_inputs_open(arena *a, run_config *cfg, bool say, rows **train,
        rows **valid);

// Sets cfg->steps where training.epochs are given: the rows that are left, of which the run takes
// the next ones in step `step` + 1. `say`: tells what epochs come to, and of a warm-up beyond the
// end.
void run_inputs_count(run_config *cfg, bool say, const rows *train, int64_t step);

// Sets what run_inputs_open finds out of the rows to train on and programs depend on, for programs
// that are made beforehand: cfg->row_documents. Fails as that does.
DRV_CHECKED drv_status run_inputs_bound(run_config *cfg);

// Counts of a run's rows, those to train on and those of evaluations together.
typedef struct inputs_counts {
    int64_t rows;  // of an epoch
    int64_t pairs; // preference pairs of their data sets, whole; 0: they have none
} inputs_counts;

// Finds out whether `drover train` would take what cfg names: tries run_dir, opens tokenizer and
// data, checks the vocabulary as far as that costs nothing, and closes them again. What is not
// named is not missed. Sets token ids and steps as a run does; *out is zero where there is no data,
// or of a failure.
DRV_CHECKED drv_status run_inputs_try(run_config *cfg, inputs_counts *out);
