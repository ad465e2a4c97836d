// The part of a job that a launcher has on its own node: a folder of its own, the program that it
// starts (mpirun, or a daemon of it, one after the other), the ranks that come of that, and the
// signals that it passes on. Nothing waits, and nothing outlives local_job_close.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/status.h"
#include "launch/outcome.h"

typedef struct local_rank {
    pid_t pid; // 0: not there yet
    bool ended;
    unsigned pending; // bits of signals that wait for it
    bool has_said;
    outcome said;
} local_rank;

typedef struct local_job {
    arena *a;
    const char *dir, *shared; // shared: of the same name in /dev/shm; NULL: there is none
    int dir_fd, shared_fd;    // lock those folders while this process lives
    int n_ranks, signal_fd;
    local_rank *ranks;
    pid_t child; // 0: not started
    bool child_ended;
    int child_status;     // 128 + the signal that ended it
    double told_s;        // clock: when the child was ended by this process; 0: it was not
    double ranks_ended_s; // clock: when all ranks had ended; 0: not yet
    int64_t kills_before; // of the system, for want of memory, before the child
} local_job;

// Blocks the signals that are passed on to ranks, for this process and what it becomes: in a step
// of Slurm they reach every process at once, and mpirun would end its ranks where they are to save.
void local_job_hold_signals(void);
// Blocks those signals, and has them by signal_fd; becomes the parent of whatever
// its descendants leave behind. DRV_E_IO: no folder can be made.
DRV_CHECKED drv_status local_job_open(arena *a, int n_ranks, local_job *out);
// Starts the child in a session of its own, where a key press does not reach it, and with those
// signals blocked. variables: "NAME=VALUE" to put into its environment, "NAME" to take out; NULL at
// the end.
DRV_CHECKED drv_status local_job_start(local_job *self, const char *const *argv,
        const char *const *variables);
// Returns the next signal to be passed on, 0: none. Notes who has ended.
int local_job_signal(local_job *self);
// Passes a signal on to the ranks that are there, and to those that come; true: there is or may
// come one.
bool local_job_forward(local_job *self, int number);
// Looks for ranks that have come or gone, and delivers what waits for them.
void local_job_look(local_job *self);
bool local_job_has_ranks(const local_job *self); // one has come
// Returns how those that have come have ended so far; one that lives is OUTCOME_UNSAID.
outcome local_job_outcome(local_job *self, int first_rank);
// Ends the child, not its ranks.
void local_job_end(local_job *self);
// Returns whether the system has killed a process here for want of memory since the child was
// started.
bool local_job_lacked_memory(const local_job *self);
// Makes ready for another child: kills and reaps what the one before has left, and empties the
// folder. DRV_E_IO: it cannot be made anew.
DRV_CHECKED drv_status local_job_renew(local_job *self);
// Kills and reaps what is left, removes the folder.
void local_job_close(local_job *self);
