// The contents of a run's files, read repeatedly while it runs, without writing to them or
// contacting the run. Files may be torn, truncated, replaced or missing.
#pragma once
#include "plot/chart.h"
#include "watch/views/ledger.h"
#include "watch/files/rank_table.h"
#include "watch/files/run_status.h"
#include "watch/views/step_histogram.h"
#include "watch/views/watched_terms.h"

// Curves over the steps with a limited number of points: means of 1, 2, 4 ... consecutive steps.
typedef enum watched_curve {
    CURVE_LOSS,
    CURVE_VALID,
    CURVE_TOKENS_PER_S,
    CURVE_MFU,
    N_WATCHED_CURVES
} watched_curve;

// The newest step in metrics.jsonl. Absent numbers: NaN; no step yet: -1.
typedef struct watched_step {
    int64_t step;
    double loss, lr, grad_norm, tokens_per_s, mfu, step_s, tokens, val_loss;
} watched_step;

// The energy that a host used for steps that count (`energy` in metrics.jsonl).
typedef struct watched_energy {
    char host[64];
    double joules;
    int64_t steps;
} watched_energy;

typedef struct watched_run {
    const char *dir;
    bool has_status, has_table;
    run_status status;
    rank_table table;
    run_event_list events;
    watched_step last;
    step_histogram steps;
    watched_terms terms;
    int64_t n_skipped; // steps without an update, since their gradient was not finite
    plot_series curves[N_WATCHED_CURVES];
    int64_t per_point[N_WATCHED_CURVES];
    ledger_sums sums;
    watched_energy *energy; // by host; none: it could not be read
    int64_t n_energy, cap_energy;
    // Bytes of metrics.jsonl read so far, and in all. Even while some are unread, `last` is the
    // newest step; the goodput is then not known yet.
    int64_t read_bytes, metrics_bytes;
    int64_t n_broken;            // lines of metrics.jsonl that could not be read
    str problems;                // what could not be read and why, one a line
    struct watched_files *files; // of watched_run.c
} watched_run;

// `dir` must outlive it. bubble: as in ledger_new. Nothing is read yet.
watched_run *watched_run_open(const char *dir, double bubble);
// Reads new content; metrics.jsonl for at most limit_s seconds, or to its end if that is 0.
void watched_run_read(watched_run *self, double limit_s);
void watched_run_close(watched_run *self);
// Returns the joules of all hosts, and sets *per_step; NaN: none were read.
double watched_run_joules(const watched_run *run, double *per_step);
// Returns how the run reads energy, or why it cannot; "": its files do not say.
const char *watched_run_energy_text(const watched_run *run);

// Returns whether `dir` looks like a run directory: it has one of the files of a run.
bool watched_run_is_one(const char *dir);
// Fails for a verb that needs a run directory if `dir` is not one. DRV_E_IO: `dir` may not be read;
// otherwise DRV_E_USAGE.
DRV_CHECKED drv_status watched_run_none(const char *verb, const char *dir);
// Returns one word for the state of the run: "running", "done", "failed", "stopped", "silent" (its
// status has not been written for a minute, by this machine's clock), "unknown".
const char *watched_run_state(const watched_run *run);
// Returns the last step that status.json or metrics.jsonl names; -1: neither does.
int64_t watched_run_step(const watched_run *run);
// Returns a JSON object with all of the above; the caller owns it.
json_t *watched_run_json(const watched_run *run);
