// Sets up the ranks of a run, and has them agree on failures, stops and saves.
#pragma once
#include "train/run.h"

// Sets the number of ranks in the config and the number of threads of this rank, and logs the
// layout. Ranks other than 0 write messages to their own log file only.
DRV_CHECKED drv_status ranks_set_up(run *r, run_config *cfg);
// Opens the files of this rank in the run directory, which rank 0 has made: its log and the record
// of its operations.
DRV_CHECKED drv_status ranks_open_files(run *r);
// Chooses the arithmetic that the processors of all ranks support, and logs it. The back ends are
// open and hold nothing yet (arithmetic.c).
DRV_CHECKED drv_status ranks_agree_on_arithmetic(run *r);
// Has all ranks agree after a step: on the failure `mine` of one rank, on a stop or a save that one
// rank was asked for or that is due by rank 0's clock, and on whether a save has ended everywhere.
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
// Ends this rank. A failure of one rank ends all of them and is reported by the rank that failed; a
// stop, or a failure that all agreed on, is reported by rank 0. This prints the message before any
// rank exits, since mpirun kills the others from then on. Returns the status of the rank that
// failed; the message is empty if one of several ranks has printed it.
DRV_CHECKED drv_status ranks_leave(run *r, const drv_saved *ended);
// Makes a failure of one rank the failure of all, with its message; the run then ends on all ranks.
DRV_CHECKED drv_status ranks_together(run *r, drv_status status);
