// Reads the state of a job from what its scheduler's own program prints. Nothing here runs a
// program.
#pragma once
#include "launch/jobs/job_record.h"

typedef enum job_phase {
    JOB_ABSENT, // the scheduler does not know it (any more)
    JOB_QUEUED, // known, and nothing of it runs
    JOB_RUNNING,
    JOB_DONE,   // the scheduler keeps its end
    JOB_FAILED, // likewise
    N_JOB_PHASES
} job_phase;
const char *job_phase_name(job_phase phase); // "queued"

typedef struct job_state {
    job_phase phase;
    const char *why;   // the scheduler's reason or state in its words, printable; "": none
    const char *where; // hosts or pods; "": none
    const char *id;    // Slurm's number now, which a try on other hosts changes; ""
    const char *pod;   // the launcher, or else one with ranks; "": none
    bool pod_runs;     // it has not ended
} job_state;
job_state job_state_new(void); // absent, texts ""

// Lines "ID|STATE|HOSTS|REASON|COMMENT" of squeue; ours is the one of that id, or with the comment
// "drover:ID", which a try on other hosts has. Of several the one that runs. Lines of another form
// are DRV_E_DATA. Texts live in `a`.
#define SQUEUE_FORMAT "%i|%T|%N|%r|%k"
DRV_CHECKED drv_status job_state_of_squeue(arena *a, const char *text, size_t n, const char *id,
        job_state *out);
// Reads the object of the job as `kubectl get -o json` prints it; nothing: absent. DRV_E_DATA: no
// such object. DRV_E_USAGE: one that lacks the labels of this job, so another's.
DRV_CHECKED drv_status job_state_of_object(arena *a, const char *text, size_t n,
        const job_record *record, job_state *out);
// Refines a state that is not over by the list of its pods, as `kubectl get pods -o json` prints
// it: what runs, or why nothing does. *n_alive: pods that have not ended. DRV_E_DATA: no such list.
DRV_CHECKED drv_status job_state_add_pods(arena *a, const char *text, size_t n, job_state *state,
        int *n_alive);
