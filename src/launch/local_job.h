// The part of a job on the launcher's own node: a folder, a child program (mpirun, or one of its
// daemons after the other), the ranks that it starts, and the signals that are forwarded to them.
// Nothing blocks, and no process outlives local_job_close.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/status.h"
#include "launch/outcome.h"

typedef struct local_rank {
    pid_t pid; // 0: not started yet
    bool ended;
    unsigned pending; // bits of signals to be sent once it has started
    bool has_outcome;
    outcome said;
} local_rank;

typedef struct local_job {
    arena *a;
    const char *dir, *shared; // shared: a folder of the same name in /dev/shm; NULL: there is none
    int dir_fd, shared_fd;    // lock those folders while this process lives
    int n_ranks, signal_fd;
    local_rank *ranks;
    pid_t child; // 0: not started
    bool child_ended;
    int child_status;     // 128 + the signal that ended it
    double end_sent_s;    // clock: when this process killed the child; 0: it did not
    double ranks_ended_s; // clock: when all ranks had ended; 0: not yet
    double looked_s;      // clock: when it looked for zombies
    int64_t kills_before; // by the system for lack of memory, before the child started
} local_job;

// Blocks the signals that are forwarded to ranks, here and in programs that this process becomes:
// in a step of Slurm they reach every process, and mpirun would kill ranks that should save.
void local_job_hold_signals(void);
// Blocks those signals, and opens signal_fd for them; makes this process the parent of orphaned
// descendants. DRV_E_IO: the folder cannot be made.
DRV_CHECKED drv_status local_job_open(arena *a, int n_ranks, local_job *out);
// Starts the child in a session of its own, out of reach of the terminal's signals, and with those
// signals blocked. variables: "NAME=VALUE" sets one in its environment, "NAME" removes one; NULL at
// the end.
DRV_CHECKED drv_status local_job_start(local_job *self, const char *const *argv,
        const char *const *variables);
// Returns the next signal to forward, 0: none. Notes which processes have ended.
int local_job_signal(local_job *self);
// Forwards a signal to the running ranks, and to those that start later. Returns whether there is
// such a rank, or may be one.
bool local_job_forward(local_job *self, int number);
// Looks for ranks that have started or ended, and sends pending signals.
void local_job_poll(local_job *self);
bool local_job_has_ranks(const local_job *self); // one has started
// Returns how the ranks that have started have ended; a running one counts as OUTCOME_UNREPORTED.
outcome local_job_outcome(local_job *self, int first_rank);
// Ends the child, not its ranks.
void local_job_end(local_job *self);
// Returns whether the system has killed a process here for lack of memory since the child was
// started.
bool local_job_lacked_memory(const local_job *self);
// Prepares for another child: kills and reaps what the previous one has left, and empties the
// folder. DRV_E_IO: it cannot be made again.
DRV_CHECKED drv_status local_job_renew(local_job *self);
// Kills and reaps what is left, and removes the folder.
void local_job_close(local_job *self);
