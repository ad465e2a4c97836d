// The ranks of a run: what each does alone, and what all agree on.
#pragma once
#include "train/run.h"

// Sets the config's ranks and the threads of this one, and says how they lie. The messages of ranks
// other than 0 go to their file alone.
DRV_CHECKED drv_status ranks_set_up(run *r, run_config *cfg);
// Opens the run directory's part of a rank: its log, the record of its operations. After rank 0 has
// made the directory.
DRV_CHECKED drv_status ranks_open_files(run *r);
// Has ranks on processors of several kinds take the arithmetic that all have, and say so; their
// back ends are open, with nothing on them yet (arithmetic.c).
DRV_CHECKED drv_status ranks_agree_on_arithmetic(run *r);
// Agrees after a step: a failure of one rank, `mine`, a stop or a save that it was asked for, or
// that is due by rank 0's clock, become those of all; also whether a save has ended on all.
DRV_CHECKED drv_status ranks_agree(run *r, drv_status mine, bool *save);
// Waits for work that another thread does on every rank. is_done waits so many seconds at most and
// tells how the work fared on this rank, once it is done. A failure of one becomes that of all, as
// by ranks_together; DRV_STOPPED, on all: a stop was asked for before all were done.
typedef bool (*ranks_is_done)(void *ctx, double at_most_s, drv_status *status);
DRV_CHECKED drv_status ranks_wait(run *r, ranks_is_done is_done, void *ctx, const char *doing);
// Takes over, on all ranks, a stop that one of them was asked for.
DRV_CHECKED drv_status ranks_share_stop(run *r);
// Refuses a rank that has another configuration than rank 0 (one_config.c).
DRV_CHECKED drv_status ranks_share_config(run *r);
// Ends the part of this rank. A failure ends all ranks, with the message of the one that it is of;
// what all know of, a stop or a failure that they agreed on, rank 0 says. It is said here, before
// any rank ends: from then on mpirun ends the others. Returns the status of the rank that failed;
// the message is empty where one of several has printed it.
DRV_CHECKED drv_status ranks_leave(run *r, const drv_saved *ended);
// Tells each rank how all fared: a failure of one is that of all, with its message, and all end
// here.
DRV_CHECKED drv_status ranks_together(run *r, drv_status status);
