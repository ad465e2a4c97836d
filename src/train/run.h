// The state of a training run, shared by the files of this folder: run_open.c opens it, train.c
// runs its steps, run_save.c saves it, run_end.c ends it.
#pragma once
#include <stdatomic.h>

#include "data/set/vocab_check.h"
#include "programs/batch_feed.h"
#include "programs/step.h"
#include "record/metrics.h"
#include "record/rank_times.h"
#include "record/report.h"
#include "record/run_record.h"
#include "train/rank_watch.h"
#include "train/ranks.h"
#include "train/trainer_json.h"
#include "weights/state.h"

// A step that was started but not reported yet. If a step is one program, the next step starts
// before the results of this one are read.
typedef struct started_step {
    step_metrics m;
    step_values values;
    int64_t counted, rows_taken; // tokens to predict; rows of the data so far
    double begin, read_s;        // clock; seconds in which its rows were read
    row_count *counts;           // rows taken from each data set so far
    double waited;               // seconds spent waiting for other ranks before this step
    int64_t sent;                // bytes sent to other ranks before this step
    str rows;                    // names of its rows
} started_step;
enum { MAX_STARTED = 2 };

// The state of the weights on the device.
typedef enum weights_state {
    WEIGHTS_OF_STEP, // the last finished step: they can be saved
    WEIGHTS_BETWEEN, // an update is running, or a later step has started
    WEIGHTS_LOST,    // unusable: an update failed half-way, or a value is not finite
} weights_state;

// The steps of a run on this rank.
typedef struct run_progress {
    double began_s;  // clock at the start of the run
    run_state state; // after the last finished step
    weights_state weights;
    started_step started[MAX_STARTED]; // a ring buffer: values that are being fetched must not move
    int first_started, n_started;
    double finished_s;     // clock at the last report of a step
    row_count *set_counts; // of each data set to train on, after the last finished step
    json_t *kept_counters; // of data sets that have no rows in this run (set_counters.h); NULL: none
    arena *hashed;         // holds the last hashed step (training.hash_every); NULL: none yet
    bool metrics_failing;  // a warning was logged
    double mean_step_s;
    int n_doubts; // steps faster than the measured peak, which was measured again after each of them
} run_progress;

// Everything that is opened once, before the first step.
typedef struct run_opened {
    bool fresh; // the run started from step 0, after earlier files were moved aside
    programs programs;
    stepper stepper;
    rows *train_rows, *valid_rows; // valid_rows NULL: no evaluation
    vocab_check vocab;             // of both, in the background
    batch_reader reader;
    json_t *base_hashes; // of LoRA's base, by tensor; NULL: no LoRA
    json_t *about;       // recorded in trainer.json beside the counters
    double flops_per_token, peak_flops;
} run_opened;

// The records and reports of a run.
typedef struct run_shown {
    run_record *record; // NULL: this run does not own the directory yet
    metrics *metrics;
    report *report;
    rank_times times;
    stragglers *stragglers;      // on rank 0 of several ranks; NULL: on others
    struct rank_watch *watch;    // rank 0: writes ranks/status; NULL: not yet
    struct observers *observers; // rank 0: status file, page and notifications; NULL: not yet
    struct host_energy *energy;  // of this host (rank_watch.c)
    rank_figures figures;        // of this rank, as sent to the others
    double measured_s;           // clock when the memory in `figures` was measured
} run_shown;

// The save that was started last.
typedef enum save_state {
    SAVE_NONE,    // no save is running
    SAVE_RUNNING, // at least one rank is still writing
    SAVE_ENDED,   // it has ended on all ranks; run_settle_save has not handled the result yet
    SAVE_GAVE_UP, // saves failed for too long, which ends the run
} save_state;

// The saves of a run.
typedef struct run_saving {
    save_state state;
    ckpt_saver *saver;                 // NULL until a resume or the first save
    ckpt_content content;              // the content to write
    const char *run_dir, *checkpoints; // where it saves
    bool lost_dir;                     // run_dir was moved, removed or taken over
    int64_t step;                      // of the last save that was started
    int64_t saved_step;                // of the newest checkpoint in place; -1: none
    int64_t *refused;                  // steps of checkpoints that could not be used
    int n_refused, cap_refused;
    int n_failed;              // consecutive saves that failed
    double failing_since_s;    // clock at the first of them
    double began_s, blocked_s; // clock at the last save; seconds that training waited for it
} run_saving;

// The stop that all ranks have agreed on; a signal to one rank alone does not set it.
typedef enum run_stop {
    STOP_NONE,
    STOP_SIGNAL,
    STOP_MAX_MINUTES, // training.max_minutes
    STOP_AT_STEP,     // training.stop_at_step
} run_stop;

// The reason why a run ends.
typedef struct run_ending {
    run_stop stop;
    bool not_finite; // a value that is not finite ended it, which the exit status does not show
} run_ending;

typedef struct run {
    this_rank rank;
    struct audit *audit; // set for a replay (audit.h), which saves nothing; else NULL
    run_opened opened;
    run_shown shown;
    run_progress progress;
    run_saving saving;
    run_ending ending;
    atomic_bool evaluates; // run_tell_stop's thread reads it
} run;

// Opens, runs and ends a run on one rank. The caller has set r->rank.
DRV_CHECKED drv_status run_all(run *r, run_config *cfg, bool fresh);
// Does the same with one rank on each of n_devices local devices (local_ranks.c).
DRV_CHECKED drv_status run_on_devices(const run_config *cfg, int n_devices, bool fresh);

// Opens everything and resumes the newest checkpoint. `fresh`: moves the files of earlier runs
// aside first and begins at step 0.
DRV_CHECKED drv_status run_open(run *r, bool fresh);
void run_close(run *r);
// Returns whether replicas of a weight are compared at the start and every parallel.check_every
// steps. Weights on devices are not read back for this.
bool run_checks_replicas(const run *r);
// Measures the peak rate of matrix products and keeps the highest seen: the machine may have been
// busy during an earlier measurement.
DRV_CHECKED drv_status run_measure_peak(run *r);

// Waits for all steps that were started, and reports them (train.c).
DRV_CHECKED drv_status run_finish_steps(run *r);

// --- run_end.c
// Returns the reason for the stop: a signal, or a key of the config.
const char *run_stop_reason(const run *r);
// Returns the key that caused the stop; NULL: it was not a key.
const char *run_stop_key(const run *r);
// Makes all ranks agree after a step: on a failure of one (`mine`), on a stop or a save that was
// requested on any or is due by rank 0's clock, and on whether a save has ended on all ranks.
DRV_CHECKED drv_status run_agree(run *r, drv_status mine, bool *save);
// Until run_end, rank 0 says at once what a stop that is requested leads to: the loop looks for it
// only between micro-batches, which may take minutes.
void run_tell_stop(run *r);
// Ends a run whose loop ended with `status`: saves the last finished step, unless saving is what
// failed, and returns the status of the run, with its message.
DRV_CHECKED drv_status run_end(run *r, drv_status status);
// Ends a run that was stopped while it was opened: it has nothing to save.
DRV_CHECKED drv_status run_end_early(run *r);

// Checks on all ranks that the run directory still belongs to this run. DRV_E_IO: it was moved,
// removed or taken over. The run then ends and writes nothing to the directory.
DRV_CHECKED drv_status run_check_dir(run *r);
// Makes the directory RUN_DIR.orphan-N, for a run that has lost RUN_DIR, and saves there from now
// on. All ranks call it.
DRV_CHECKED drv_status run_move_out(run *r);

// A failed save logs a warning, and the next interval tries again. This many failures in a row end
// the run, once the first of them is checkpoint.give_up_minutes old.
enum { MIN_FAILED_SAVES = 3 };
DRV_CHECKED drv_status run_start_save(run *r);
// After a resume: removes the old checkpoints that a stopped run was about to remove.
void run_retain(run *r);
// Returns whether there is a save whose result was not handled yet.
bool run_is_saving(const run *r);
// Handles the result of a save that has ended. `wait`: waits for a save that is still running.
DRV_CHECKED drv_status run_settle_save(run *r, bool wait);
// Saves the last finished step, and returns when the checkpoint is in place. Like every save, all
// ranks take part.
DRV_CHECKED drv_status run_save_last(run *r);
