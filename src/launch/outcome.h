// Computes one exit status for all nodes from what each rank has left in its node's folder about
// its end.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

// The end of a rank. Of several ranks the last of these counts.
typedef enum outcome_kind {
    OUTCOME_NONE, // there was no rank
    OUTCOME_DONE,
    OUTCOME_STOPPED,    // on request
    OUTCOME_UNREPORTED, // it ended without a report: killed, or at once
    OUTCOME_PEER,       // because another one was lost
    OUTCOME_FAILED,     // by itself: its status is that of the job
    N_OUTCOMES
} outcome_kind;

typedef struct outcome {
    outcome_kind kind;
    int status;      // exit_status_plain
    int rank;        // its number in the job
    drv_status code; // of which `status` is the exit status: 75 stands for several
} outcome;

// The folder in which ranks leave their process ids and outcomes for their launcher.
#define LAUNCH_DIR "DROVER_LAUNCH_DIR"

// Called by a rank when it ends: leaves its outcome. Does nothing unless our launcher started it.
void outcome_leave(drv_status status);
// Reads the outcome of local rank `local` from `dir`; false: there is none.
bool outcome_read(const char *dir, int local, outcome *out);
// Returns the one that counts: the later kind; of equal kinds, that of the lower rank.
outcome outcome_of_both(outcome x, outcome y);
// Write an outcome as a line, and read it back; false: it is not one.
const char *outcome_text(arena *a, outcome o);
bool outcome_parse(const char *text, outcome *out);
// Returns the exit status of the job; launcher: the exit status of mpirun.
int outcome_status(outcome o, int launcher);
// Returns the status of this process for which drover exits with `exit`.
drv_status outcome_as_status(int exit);
