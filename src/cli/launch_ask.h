// Asks what is known of a submitted job: its scheduler, by the scheduler's own program, and its
// run, by status.json. For the verbs that look after a job.
#pragma once
#include "cli/cli.h"
#include "launch/jobs/foreign_program.h"
#include "launch/jobs/job_record.h"
#include "launch/jobs/job_state.h"
#include "watch/files/run_status.h"

typedef struct asked_job {
    const char *dir; // of launch.json
    job_record record;
    double limit_s;      // for each program that is asked
    const char *run_dir; // as seen from here; NULL: there is none
    job_state state;     // of the last launch_ask
    int n_pods;          // that have not ended
    bool is_known;       // the scheduler has been asked: Slurm's jobs have no name but their number
    bool has_status;     // `status` is there
    run_status status;
    const char *no_status; // why not
} asked_job;

// Reads launch.json and the options. DRV_E_USAGE: no such folder, a key of another form, or the
// scheduler's program is not there.
DRV_CHECKED drv_status launch_open_job(arena *a, const cli_args *args, asked_job *out);
// Asks the scheduler. DRV_E_BUSY, DRV_E_IO, DRV_E_DATA: its program hangs, fails, prints rubbish.
DRV_CHECKED drv_status launch_ask(arena *a, asked_job *job);
// Reads status.json, from the disk or from a pod.
void launch_read_run(arena *a, asked_job *job);
// Runs one program of the scheduler within its limit; a failure is named after the verb.
DRV_CHECKED drv_status launch_call(arena *a, const asked_job *job, const program_words *words,
        program_end *out);
// Prints what others have written; a terminal gets no control characters of theirs. ctx: NULL.
void launch_print_bytes(void *ctx, const char *bytes, size_t n);
// "running, step 12 of 100, ..." of status.json.
const char *launch_run_words(arena *a, const asked_job *job);

DRV_CHECKED drv_status launch_run_status(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_logs(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_stop(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_clean(arena *a, const cli_args *args);
