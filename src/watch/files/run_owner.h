// Says who holds a run directory: a lock on RUN_DIR/.lock, which the system takes back from a
// process that ends, and beside it RUN_DIR/owner.json, a token with a heartbeat, since not every
// file system has locks and some have them on one machine alone (Lustre without "flock" and with
// "localflock"). One attempt holds it; one that has lost it finds out before it puts a checkpoint
// in its place.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct run_owner run_owner; // run_owner_check and run_owner_dir: any thread

// Seconds; 0: the default.
typedef struct run_owner_opts {
    double beat_s;   // between heartbeats (2)
    double watch_s;  // a heartbeat that stands still for so long is of nobody (10)
    double settle_s; // without locks: until another start at the same time has shown itself (1.5)
} run_owner_opts;

// Takes the directory, which is there. Where its owner.json is of another machine, or there are no
// locks, the heartbeat is watched; one that stands still is taken over, which is said.
// DRV_E_BUSY: another process holds it; the message says who. DRV_E_IO: it cannot be locked.
DRV_CHECKED drv_status run_owner_take(arena *a, const char *run_dir, const run_owner_opts *opts,
        run_owner **out);
// DRV_E_IO: the directory was moved, removed or replaced, or another attempt has taken it over. The
// message says which, and who.
DRV_CHECKED drv_status run_owner_check(run_owner *self);
// Returns whether the open directory, wherever it is now, is another attempt's, or was meanwhile.
// Any thread.
bool run_owner_is_taken(const run_owner *self);
// Returns the open directory, wherever it is now. It belongs to the owner.
int run_owner_dir(const run_owner *self);
// Gives it back; owner.json is removed where it is still ours. NULL is allowed.
void run_owner_release(run_owner *self);

// Returns the number of the scheduler's job that this process is part of; "": none is known.
const char *run_job(void);
