// Reads the state of a job from the output of its scheduler's program. Runs no program.
#pragma once
#include "launch/jobs/job_record.h"

typedef enum job_phase {
    JOB_ABSENT, // not known to the scheduler, or not any more
    JOB_QUEUED, // known, but nothing of it runs
    JOB_RUNNING,
    JOB_DONE,   // the scheduler still reports its end
    JOB_FAILED, // likewise
    N_JOB_PHASES
} job_phase;
const char *job_phase_name(job_phase phase); // "queued"

typedef struct job_state {
    job_phase phase;
    const char *why;   // the scheduler's reason or state, printable; "": none
    const char *where; // hosts or pods; "": none
    const char *id;    // Slurm's present number, which a try on other hosts changes; ""
    const char *pod;   // the launcher's, else one with ranks; "": none
    bool pod_runs;     // the pod has not ended
} job_state;
job_state job_state_new(void); // absent, texts ""

// Reads lines "ID|STATE|HOSTS|REASON|COMMENT" of squeue. The job's line has that id, or the comment
// "drover:ID" after a try on other hosts; of several, the running one counts. Lines of another form
// are skipped, since a comment of another job may contain line feeds. DRV_E_DATA: all lines are of
// another form. Texts live in `a`.
#define SQUEUE_FORMAT "%i|%T|%N|%r|%k"
DRV_CHECKED drv_status job_state_of_squeue(arena *a, const char *text, size_t n, const char *id,
        job_state *out);
// Reads the job's object as `kubectl get -o json` prints it; an empty text: absent. DRV_E_DATA: not
// such an object. DRV_E_USAGE: it lacks the labels of this job, so it belongs to another job.
DRV_CHECKED drv_status job_state_of_object(arena *a, const char *text, size_t n,
        const job_record *record, job_state *out);
// Refines the state of a job that has not ended by its pods, as `kubectl get pods -o json` prints
// them: which run, or why none does. *n_alive: pods that have not ended. DRV_E_DATA: no such list.
DRV_CHECKED drv_status job_state_add_pods(arena *a, const char *text, size_t n, job_state *state,
        int *n_alive);
