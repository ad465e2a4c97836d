// Tells how ranks have ended, from what each leaves in its node's folder to one exit status for all
// nodes.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

// The ways in which a rank ends. Of several ranks the last of these counts.
typedef enum outcome_kind {
    OUTCOME_NONE, // there was no rank
    OUTCOME_DONE,
    OUTCOME_STOPPED, // on request
    OUTCOME_UNSAID,  // it ended without a word: killed, or at once
    OUTCOME_PEER,    // because another one was lost
    OUTCOME_FAILED,  // by itself: its status is the job's
    N_OUTCOMES
} outcome_kind;

typedef struct outcome {
    outcome_kind kind;
    int status;      // exit_status_plain
    int rank;        // its number in the job
    drv_status code; // what it is a status of: 75 has several
} outcome;

// The folder where a launcher keeps what its ranks tell it: their process ids and how they ended.
#define LAUNCH_DIR "DROVER_LAUNCH_DIR"

// Called by a rank when it ends: leaves how. Nothing where no launcher of ours has started it.
void outcome_leave(drv_status status);
// Reads what local rank `local` has left in `dir`; false: nothing.
bool outcome_read(const char *dir, int local, outcome *out);
// Returns the one that counts: the later kind, of the lower rank.
outcome outcome_of_both(outcome x, outcome y);
// Write an outcome as a line, and read it back; false: it is none.
const char *outcome_text(arena *a, outcome o);
bool outcome_parse(const char *text, outcome *out);
// Returns the exit status of the job; launcher: that of mpirun.
int outcome_status(outcome o, int launcher);
// Returns a status of this process that has that exit status.
drv_status outcome_as_status(int exit);
