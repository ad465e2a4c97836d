// Writes the records of a run for other programs: metrics.jsonl (one object per step or evaluation)
// and TensorBoard events with NxD Training's tags. docs/formats.md lists the keys.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "programs/evaluate.h"
#include "record/rank_times.h"
#include "weights/hashes.h"

enum { METRICS_TERMS = 16 };

typedef struct step_metrics {
    int64_t step, steps;
    double loss, lr, grad_norm, param_norm;
    int64_t tokens, consumed_samples;  // so far; tokens: those with a loss
    int64_t step_tokens, step_samples; // of this step's rows, with or without a loss
    double tokens_per_s, step_s, data_s, compute_s, update_s, save_s;
    double mfu; // 0: unknown
    double eta_s;
    int64_t n_pairs;         // of the batch; 0: no preference training
    pair_figures pairs;      // of the batch
    bool skipped;            // there was no update, since the gradient was not finite
    const rank_times *times; // of all ranks; n is 0 if there is only one
    bool shared;             // the ranks shared their times at this step
    bool hashed;             // `hashes` are those of this step
    int n_terms;             // parts of this rank's step, in seconds; 0: not timed
    double terms[METRICS_TERMS];
    const char *(*term_name)(int term);
    state_hashes hashes;
} step_metrics;

typedef struct metrics metrics;

// The steps after a given one in metrics.jsonl: their number, and the seconds that they took.
typedef struct lost_metrics {
    int64_t steps;
    double seconds;
} lost_metrics;
// Counts the steps that the file of an earlier attempt has beyond `after_step`; none if it does not
// exist or cannot be read.
lost_metrics metrics_count_lost(const char *run_dir, int64_t after_step);

// Opens the files in the run directory; `hashes`: also hashes.jsonl, by tensor. Drops lines of
// steps after `resumed_step` and lines that a later one repeats, and makes TensorBoard drop them,
// so that a run that was killed shows each step once. A new run (`resumed_step` 0) drops all. Lines
// that are kept go to new files, so that a process that has the old ones open cannot add to them.
DRV_CHECKED drv_status metrics_open(arena *a, const char *run_dir, int64_t resumed_step,
        bool hashes, metrics **out);
DRV_CHECKED drv_status metrics_step(metrics *self, const step_metrics *step);
DRV_CHECKED drv_status metrics_valid(metrics *m, int64_t step, const evaluation_result *result);
void metrics_close(metrics *m);
