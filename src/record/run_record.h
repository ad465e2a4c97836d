// Keeps the record of a run for those who watch it: its hold on the run directory, its journal and
// its status.json (src/watch). Rank 0 writes; when it has died, the lowest rank that lives writes
// how the job ended. Nothing here ends a run but the loss of its directory: a journal that cannot
// be written is warned of once.
#pragma once
#include "comm/comm.h"
#include "config/config.h"
#include "record/metrics.h"
#include "record/stragglers.h"

typedef struct run_record run_record; // any thread may call; NULL for `self`: nothing is recorded

// --- the directory
// Takes the run directory, which is there, and begins an attempt: rank 0, or the only one.
// DRV_E_BUSY: another drover has it.
DRV_CHECKED drv_status record_take(arena *a, const run_config *cfg, comm *c, run_record **out);
// Gives all ranks of a job their part of the record, after rank 0 has taken the directory; a
// collective. `self`: of rank 0; other ranks get theirs.
DRV_CHECKED drv_status record_share(arena *a, const run_config *cfg, comm *c, run_record **self);
// Checks the hold on the directory. DRV_E_IO: it is not this run's any more, and why. Only rank 0
// knows.
DRV_CHECKED drv_status record_check(run_record *self);
// Moves to another directory, which is there: everything goes there from here on.
void record_move(run_record *self, const char *run_dir);
void record_close(run_record *self);

// --- what happens
void record_resume(run_record *self, int64_t step, const char *from, const lost_metrics *lost);
// energy: how it is read on the hosts, or why not.
void record_running(run_record *self, int64_t step, const char *energy);
void record_step(run_record *self, const step_metrics *m);
void record_saving(run_record *self);
void record_saved(run_record *self, int64_t step, double seconds, double blocked_s, int64_t bytes);
void record_evaluation(run_record *self, int64_t step, double seconds, double val_loss);
// `host` is that of the rank.
void record_straggler(run_record *self, const straggler *told, const char *host);
// `signal` or `reason` is NULL.
void record_stop(run_record *self, int64_t step, const char *signal, const char *reason);
// Records how the run ends on this rank: the cause where the status does not tell it (NULL: it
// does); `alone`: no other rank knows of it yet. Once; what comes later changes nothing.
void record_end(run_record *self, drv_status status, const char *cause, const char *message,
        bool alone);
