// The record of a run: its lock on the run directory, its journal and its status.json (src/watch).
// Rank 0 writes them; if it has died, the lowest surviving rank writes how the job ended. Only the
// loss of the run directory ends a run: if the journal cannot be written, one warning is logged.
#pragma once
#include "base/json.h"
#include "comm/comm.h"
#include "config/config.h"
#include "record/metrics.h"
#include "record/stragglers.h"

typedef struct run_record run_record; // any thread may call; NULL for `self`: nothing is recorded

// --- the directory
// Takes an existing run directory and begins an attempt; on rank 0, or the only rank. DRV_E_BUSY:
// another process has it.
DRV_CHECKED drv_status record_take(arena *a, const run_config *cfg, comm *c, run_record **out);
// Gives every other rank its record, after rank 0 has taken the directory. All ranks call it; *self
// is rank 0's record there, and is set on the others.
DRV_CHECKED drv_status record_share(arena *a, const run_config *cfg, comm *c, run_record **self);
// Checks on rank 0 that the directory still belongs to this run. DRV_E_IO: it does not; the message
// says why. Always DRV_OK on other ranks.
DRV_CHECKED drv_status record_check(run_record *self);
// Writes to another, existing directory from now on.
void record_move(run_record *self, const char *run_dir);
void record_close(run_record *self);

// --- what happens
void record_resume(run_record *self, int64_t step, const char *from, const lost_metrics *lost);
// energy: how energy is read on the hosts, or why it is not. planned: the planned time of a step by
// terms (docs/formats.md), NULL if it is not known; belongs to the record from now on.
void record_running(run_record *self, int64_t step, const char *energy, json_t *planned);
void record_step(run_record *self, const step_metrics *m);
void record_saving(run_record *self);
void record_saved(run_record *self, int64_t step, double seconds, double blocked_s, int64_t bytes);
void record_evaluation(run_record *self, int64_t step, double seconds, double val_loss);
// `host` is the host of the rank.
void record_straggler(run_record *self, const straggler *told, const char *host);
// One of `signal` and `reason` is NULL.
void record_stop(run_record *self, int64_t step, const char *signal, const char *reason);
// Records how the run ends on this rank. `cause`: NULL if it follows from the status. `alone`: no
// other rank knows of the end yet. Only the first call has an effect.
void record_end(run_record *self, drv_status status, const char *cause, const char *message,
        bool alone);
