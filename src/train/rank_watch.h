// The table of ranks that rank 0 keeps for whoever watches the run (watch/files/rank_table.h): a
// thread writes it once a second, from what the ranks tell each other anyway.
#pragma once
#include "comm/comm.h"
#include "config/config.h"
#include "record/rank_times.h"

struct run;
typedef struct rank_watch rank_watch; // single owner

// Begins the table on rank 0. The thread looks at `job` until rank_watch_close. A table that cannot
// be opened (*out stays as it is) or written is warned of, once until it can be again, and does not
// end the run; DRV_E_DEVICE: no thread can be started.
DRV_CHECKED drv_status rank_watch_open(arena *a, comm *job, const run_config *cfg,
        rank_watch **out);
// Writes the table a last time. NULL is allowed.
void rank_watch_close(rank_watch *w);

// Every rank, before the first step: one of each host begins to read its energy (measure/energy.h).
DRV_CHECKED drv_status rank_watch_open_energy(struct run *r);
const char *rank_watch_energy_words(const struct run *r); // rank 0: how it is read, or why not
void rank_watch_close_energy(struct run *r);
// Notes, before a step's times are shared, what the host used since, read at most once a second.
void rank_watch_energy(struct run *r, int64_t step);

// Every rank, after each step: tells the others what the step went into and what the rank holds.
void rank_watch_tell(struct run *r, const rank_time *step);

// Rank 0 of several: from now on looks for stragglers among the ranks of a mesh.
void rank_watch_find_stragglers(struct run *r, const mesh *ranks);
// Every rank, after each step: now and then all learn what each did in the last steps, and rank 0
// tells of stragglers, in the log and in the journal.
DRV_CHECKED drv_status rank_watch_stragglers(struct run *r, int64_t step);
