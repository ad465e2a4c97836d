// The table of ranks that rank 0 writes for `drover top` and the page (watch/files/rank_table.h): a
// thread writes it once a second, from the status messages that the ranks exchange anyway.
#pragma once
#include "comm/comm.h"
#include "config/config.h"
#include "record/rank_times.h"

struct run;
typedef struct rank_watch rank_watch; // single owner

// Begins the table on rank 0. The thread reads `job` until rank_watch_close. If the table cannot be
// opened (*out stays unchanged) or written, a warning is logged once and the run continues;
// DRV_E_DEVICE: no thread can be started.
DRV_CHECKED drv_status rank_watch_open(arena *a, comm *job, const run_config *cfg,
        rank_watch **out);
// Writes the table a last time. NULL is allowed.
void rank_watch_close(rank_watch *w);

// Every rank calls it before the first step: one rank of each host begins to read its energy
// (measure/energy.h).
DRV_CHECKED drv_status rank_watch_open_energy(struct run *r);
const char *rank_watch_energy_text(
        const struct run *r); // on rank 0: how energy is read, or why not
void rank_watch_close_energy(struct run *r);
// Adds the energy that the host has used since the last call, read at most once a second. Call it
// before the times of a step are shared.
void rank_watch_energy(struct run *r, int64_t step);

// Every rank calls it after each step: sends the others the times of the step and the memory that
// the rank holds.
void rank_watch_share_figures(struct run *r, const rank_time *step);

// On rank 0 of several: starts the detection of stragglers among the ranks of a mesh.
void rank_watch_find_stragglers(struct run *r, const mesh *ranks);
// Every rank calls it after each step: at intervals all ranks gather the times of the last steps,
// and rank 0 reports stragglers in the log and the journal.
DRV_CHECKED drv_status rank_watch_stragglers(struct run *r, int64_t step);
