// A rank among the ranks of a run or of a measurement: sets them up, and has them agree on failures
// and stops.
#pragma once
#include "backend/backend.h"
#include "config/config.h"

typedef struct this_rank {
    arena *a;
    run_config *cfg; // fixed once the data is open (config_count_steps)
    comm *comm;
    device_pool *pool; // ranks are threads of this process, on a device each; NULL: they are not
    backend *b;
    bool leads;    // rank 0: has the run directory's files, reports, saves
    bool together; // all ranks end for the same reason: they can save, and rank 0 reports it
} this_rank;

// Sets the number of ranks in the config and the number of threads of this rank, and logs the
// layout. Ranks other than 0 write messages to their own log file only.
DRV_CHECKED drv_status ranks_set_up(this_rank *r, run_config *cfg);
// Chooses the arithmetic that the processors of all ranks support, and logs it. The back ends are
// open and hold nothing yet (arithmetic.c).
DRV_CHECKED drv_status ranks_agree_on_arithmetic(this_rank *r);
// Waits for work that another thread does on every rank. is_done waits so many seconds at most and
// tells how the work fared on this rank, once it is done. A failure of one becomes that of all, as
// by ranks_together; DRV_STOPPED, on all: a stop was asked for before all were done.
typedef bool (*ranks_is_done)(void *ctx, double at_most_s, drv_status *status);
DRV_CHECKED drv_status ranks_wait(this_rank *r, ranks_is_done is_done, void *ctx,
        const char *doing);
// Takes over, on all ranks, a stop that one of them was asked for.
DRV_CHECKED drv_status ranks_share_stop(this_rank *r);
// Refuses a rank that has another configuration than rank 0 (one_config.c).
DRV_CHECKED drv_status ranks_share_config(this_rank *r);
// Chooses the level of parallel.zero: auto on all ranks, and logs it, once they share a config.
DRV_CHECKED drv_status ranks_choose_zero(this_rank *rank);
// Ends this rank. A failure of one rank ends all of them and is reported by the rank that failed; a
// stop, or a failure that all agreed on, is reported by rank 0. This prints the message before any
// rank exits, since mpirun kills the others from then on. Returns the status of the rank that
// failed; the message is empty if one of several ranks has printed it.
DRV_CHECKED drv_status ranks_leave(this_rank *r, const drv_saved *ended);
// Makes a failure of one rank the failure of all, with its message; the run then ends on all ranks.
DRV_CHECKED drv_status ranks_together(this_rank *r, drv_status status);
