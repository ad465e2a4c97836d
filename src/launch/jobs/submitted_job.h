// A job that was submitted: what its scheduler says of it, asked by the scheduler's own program,
// and the state of its run, read from status.json.
#pragma once
#include "launch/jobs/job_commands.h"
#include "launch/jobs/job_state.h"
#include "watch/files/run_status.h"

typedef struct submitted_job {
    const char *dir; // of launch.json
    job_record record;
    double limit_s;      // for each call of the scheduler's program
    const char *run_dir; // as seen from here; NULL: there is none
    job_state state;     // of the last submitted_job_ask
    int n_pods;          // that have not ended
    bool is_known;       // the scheduler can be asked: Slurm's jobs have no name but their number
    bool has_status;     // `status` was read
    run_status status;
    const char *no_status; // why it was not
} submitted_job;

// Reads DIR/launch.json. run_dir: the run directory as seen from here; NULL: as the job names it.
// DRV_E_USAGE: as job_record_read, or the scheduler's program is not there.
DRV_CHECKED drv_status submitted_job_open(arena *a, const char *dir, const char *run_dir,
        double limit_s, submitted_job *out);
// Runs one program of the scheduler within the limit.
DRV_CHECKED drv_status submitted_job_call(arena *a, const submitted_job *job,
        const program_words *words, program_end *out);
// Asks the scheduler for the state. DRV_E_BUSY, DRV_E_IO, DRV_E_DATA: its program hangs, fails,
// prints rubbish.
DRV_CHECKED drv_status submitted_job_ask(arena *a, submitted_job *job);
// Reads status.json, from the disk or from a running pod.
void submitted_job_read_run(arena *a, submitted_job *job);

// Returns Slurm's present number; "": not known, or the job is of Kubernetes.
const char *submitted_job_id(const submitted_job *job);
// Returns "queued", "running", ...: what the scheduler says, or, if it does not know the job any
// more, how the run ended.
const char *submitted_job_verdict(const submitted_job *job);
// Return "running on node1: ..." and "running, step 12 of 100, ...".
const char *submitted_job_scheduler_words(arena *a, const submitted_job *job);
const char *submitted_job_run_words(arena *a, const submitted_job *job);

// Returns whether neither the job nor a pod of it runs or will run.
bool submitted_job_is_over(const submitted_job *job);
// Asks a running job to save and end, takes a queued one out of the queue, and waits for the end.
// DRV_E_BUSY: it still runs after wait_s.
DRV_CHECKED drv_status submitted_job_stop(arena *a, submitted_job *job, double wait_s);

// The objects of Kubernetes and the files that a job leaves behind.
typedef struct job_remains {
    const char *objects[MAX_JOB_OBJECTS], **files;
    int n_objects, n_files;
} job_remains;
// Finds those that are there; objects only if they have the job's label.
DRV_CHECKED drv_status job_remains_find(arena *a, const submitted_job *job, job_remains *out);
// Removes them, launch.json last, so that a failed removal can be repeated.
DRV_CHECKED drv_status job_remains_remove(arena *a, const submitted_job *job,
        const job_remains *list);
