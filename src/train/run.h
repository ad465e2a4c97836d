// A training run, as its parts share it: opening (run_open.c), saving (run_save.c), steps (train.c).
#pragma once
#include "data/set/vocab_check.h"
#include "programs/batch_feed.h"
#include "programs/step.h"
#include "record/metrics.h"
#include "record/rank_times.h"
#include "record/report.h"
#include "record/run_record.h"
#include "train/rank_watch.h"
#include "train/trainer_json.h"
#include "weights/state.h"

// A step between its start and its report. Where a step is one program, the next one is started
// before the numbers of this one are read.
typedef struct started_step {
    step_metrics m;
    step_values values;
    int64_t counted, rows_taken; // tokens to predict; rows of the data so far
    double begin, read_s;        // seconds to read its rows
    row_count *counts;           // of its data sets so far
    double waited;               // for other ranks, before it
    int64_t sent;                // bytes to other ranks, before it
    str rows;                    // their names
} started_step;
enum { MAX_STARTED = 2 };

typedef struct run {
    arena *a;
    run_config *cfg; // fixed once the data is open (config_count_steps)
    comm *comm;
    device_pool *pool; // ranks are threads of this process, on a device each; NULL: they are not
    bool leads;        // rank 0: has the run directory's files, reports, saves
    stepper stepper;
    bool stopping;       // several ranks: they have agreed to. A signal alone stops one rank only
    const char *limit;   // key that asked for the stop; NULL: a signal did
    struct audit *audit; // a replay (audit.h), which saves nothing; NULL: a run
    bool fresh;          // it began anew, with what was there moved aside
    bool together; // all ranks end here, for the same reason: they can save, and rank 0 says why
    backend *b;
    programs p;
    rows *train_rows, *valid_rows; // valid_rows NULL: no evaluation
    vocab_check vocab;             // of both, in the background
    batch_reader reader;
    started_step started[MAX_STARTED]; // a ring: values on their way must not move
    int first_started, n_started;
    double finished; // time of the last report of a step
    run_state state;
    row_count *set_counts; // of each data set to train on, after the last finished step
    json_t *kept_counters; // of sets that have no rows here (set_counters.h); NULL: none
    metrics *metrics;
    bool metrics_failing; // said once
    arena *hashed;        // of the last step that was (training.hash_every); NULL: none yet
    report *report;
    rank_times times;
    stragglers *stragglers;      // rank 0 of several; NULL: not this rank
    struct rank_watch *watch;    // rank 0: writes ranks/status; NULL: not yet
    struct observers *observers; // rank 0: show the run to others; NULL: not yet
    struct host_energy *energy;  // of this host (rank_watch.c)
    rank_figures figures;        // of this rank, as the others hear them
    double measured_s;           // when `figures` had its memory looked at
    // saving
    ckpt_saver *saver;                 // NULL until the first save
    ckpt_content content;              // what it writes
    json_t *base_hashes;               // of LoRA's base, by tensor; NULL: no LoRA
    json_t *about;                     // recorded in trainer.json beside the counters
    const char *run_dir, *checkpoints; // where it saves
    int64_t saved_step, saving_step;   // in place; under way. -1: none
    int64_t *refused;                  // steps of checkpoints that could not be used
    int n_refused, cap_refused;
    bool save_ended;        // on all ranks (ranks_agree)
    int failed_saves;       // in a row
    double failing_since_s; // clock at the first of them
    bool saves_given_up;    // they have failed for too long, which ends the run
    bool weights_lost;      // an update failed half-way: they belong to no step
    bool start_failed;      // of a step as one program: they are lost for good
    // of those who watch
    run_record *record;             // NULL: the directory is not taken yet
    const char *cause;              // of its end, where the status does not say it; NULL: it does
    bool lost_dir;                  // the run directory is another's, or gone
    double began_s;                 // clock
    double save_began_s, blocked_s; // the last save; how long training has waited for it
    double flops_per_token, peak_flops, mean_step_s;
    int n_doubts; // steps faster than the peak, after which it was measured again
} run;

// Does the whole of a run on one rank; r->comm, r->pool and r->leads are set.
DRV_CHECKED drv_status run_all(run *r, run_config *cfg, bool fresh);
// The same on n_devices local devices, a rank each (local_ranks.c).
DRV_CHECKED drv_status run_on_devices(const run_config *cfg, int n_devices, bool fresh);

// Opens everything and resumes; `fresh`: what earlier runs left is moved aside first.
DRV_CHECKED drv_status run_open(run *r, bool fresh);
void run_close(run *r);
// Returns whether weights that ranks have alike are compared, at the start and now and then
// (parallel.check_every). Those of devices are not read back for it.
bool run_checks_replicas(const run *r);
// Measures the peak of products again now and then, and keeps the higher: the machine may have been
// busy before.
DRV_CHECKED drv_status run_measure_peak(run *r);

// Takes all steps that were started to their end and their lines (train.c).
DRV_CHECKED drv_status run_finish_steps(run *r);

// --- run_end.c
// Names what asked for a stop: a signal, or a key of this run.
const char *run_stop_reason(const run *r);
// Ends a run whose loop ended with `status`: saves the last finished step, unless that is what
// failed, and returns the status of the run, with the message that is to be said.
DRV_CHECKED drv_status run_end(run *r, drv_status status);
// Ends a run that was stopped while it was opened: it has nothing to save.
DRV_CHECKED drv_status run_end_early(run *r);

// Checks that the run directory is still this run's; a collective. DRV_E_IO: it was moved, removed
// or taken over, which ends the run: nothing there is touched any more.
DRV_CHECKED drv_status run_check_dir(run *r);
// Makes a directory after it was lost: what comes now is saved beside it, in RUN_DIR.orphan-N; a
// collective.
DRV_CHECKED drv_status run_move_out(run *r);

// A failed save is warned of and tried again at the next interval; so many in a row are an error,
// once the first of them is checkpoint.give_up_minutes ago.
enum { MIN_FAILED_SAVES = 3 };
DRV_CHECKED drv_status run_start_save(run *r);
// Takes the result of a save that has ended. `wait`: of one that is under way too.
DRV_CHECKED drv_status run_settle_save(run *r, bool wait);
// Saves the last finished step, which is in place when this returns DRV_OK. Like every save one of
// all ranks.
DRV_CHECKED drv_status run_save_last(run *r);
