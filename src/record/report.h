// Shows a run to a person: a status line on the terminal, a line for every log_every-th step,
// evaluations, and a summary at the end. All of it goes to standard error and log.txt.
#pragma once
#include "base/arena.h"
#include "record/metrics.h"

typedef struct report report; // single owner; lives in its arena

// Makes a report. `run_dir` and `config` (NULL: none) are named in the summary; they must outlive
// the report.
report *report_new(arena *a, const char *run_dir, const char *config, int64_t log_every);
// Shows a step; called after every step, in order.
void report_step(report *r, const step_metrics *m);
void report_valid(report *r, int64_t step, const evaluation_result *result);
// Prints a summary at the end of the run; `model`: the last checkpoint.
void report_summary(report *self, const char *model);
