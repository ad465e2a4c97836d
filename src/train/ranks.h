// Sets up the ranks of a run or of a measurement, and has them agree on failures and stops.
#pragma once
#include "backend/backend.h"
#include "config/config.h"

typedef struct this_rank {
    arena *a;
    run_config *cfg; // fixed once the data is open (config_count_steps)
    comm *comm;
    device_pool *pool; // the devices of ranks that are threads of this process; NULL: they are not
                       // threads
    backend *b;
    bool leads;    // rank 0, which writes the run directory's files, reports and saves
    bool together; // all ranks end for the same reason, so they can save, and rank 0 reports it
} this_rank;

// Sets the number of ranks in the config and the number of threads of this rank, and logs the
// layout. Ranks other than 0 write messages to their own log file only.
DRV_CHECKED drv_status ranks_set_up(this_rank *r, run_config *cfg);
// Chooses the arithmetic that the processors of all ranks support, and logs it. The back ends are
// open and have no state yet (arithmetic.c).
DRV_CHECKED drv_status ranks_agree_on_arithmetic(this_rank *r);
// Waits for work that another thread does on every rank. is_done waits at most at_most_s seconds,
// returns whether the work is done and sets *status to its result on this rank. A failure of one
// rank becomes the failure of all, as in ranks_together. DRV_STOPPED on all ranks: a stop was
// requested before all were done.
typedef bool (*ranks_is_done)(void *ctx, double at_most_s, drv_status *status);
DRV_CHECKED drv_status ranks_wait(this_rank *r, ranks_is_done is_done, void *ctx,
        const char *doing);
// Sets a stop on all ranks that was requested on one of them.
DRV_CHECKED drv_status ranks_share_stop(this_rank *r);
// Fails if a rank's configuration differs from that of rank 0 (one_config.c).
DRV_CHECKED drv_status ranks_share_config(this_rank *r);
// Resolves parallel.zero: auto on all ranks, and logs the level. Call it after ranks_share_config.
DRV_CHECKED drv_status ranks_choose_zero(this_rank *rank);
// Ends this rank. A failure of one rank ends all of them and is reported by the rank that failed; a
// stop, or a failure that all agreed on, is reported by rank 0. This prints the message before any
// rank exits, since mpirun kills the others from then on. Returns the status of the rank that
// failed; the message is empty if one of several ranks has printed it.
DRV_CHECKED drv_status ranks_leave(this_rank *r, const drv_saved *ended);
// Makes a failure of one rank the failure of all, with its message; the run then ends on all ranks.
DRV_CHECKED drv_status ranks_together(this_rank *r, drv_status status);
