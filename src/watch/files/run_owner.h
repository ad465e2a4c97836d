// Lets one attempt at a time own a run directory. It holds a lock on RUN_DIR/.lock, which the
// system releases when the process ends, and RUN_DIR/owner.json, a token with a heartbeat, since
// some file systems have no locks and others only within one machine (Lustre without "flock" and
// with "localflock"). An attempt that has lost the directory finds out before it renames a
// checkpoint into place.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct run_owner run_owner; // run_owner_check and run_owner_dir: any thread

// Seconds; 0: the default.
typedef struct run_owner_opts {
    double beat_s;   // between heartbeats (2)
    double watch_s;  // an owner whose heartbeat has not changed for this long is gone (10)
    double settle_s; // without locks: how long to wait for another attempt that starts at the same
                     // time (1.5)
} run_owner_opts;

// Takes a directory that exists. If its owner.json comes from another machine, or there are no
// locks, the heartbeat is watched; a directory whose heartbeat has stopped is taken over, with a
// warning. DRV_E_BUSY: another process holds it, which the message names. DRV_E_IO: it cannot be
// locked.
DRV_CHECKED drv_status run_owner_take(arena *a, const char *run_dir, const run_owner_opts *opts,
        run_owner **out);
// Checks that the directory still belongs to this attempt. DRV_E_IO: it was moved, removed or
// replaced, or another attempt has taken it over; the message says which, and names that attempt.
DRV_CHECKED drv_status run_owner_check(run_owner *self);
// Returns whether another attempt owns the open directory, wherever that is now, or has owned it
// since this one took it. Any thread may call it.
bool run_owner_is_taken(const run_owner *self);
// Returns a descriptor of the open directory, wherever that is now. It belongs to the owner.
int run_owner_dir(const run_owner *self);
// Releases the directory and removes owner.json if it is still ours. NULL is allowed.
void run_owner_release(run_owner *self);

// Returns the job number of the scheduler to which this process belongs; "": none is known.
const char *run_job(void);
