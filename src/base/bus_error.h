// Protects reads of memory-mapped files that other processes may truncate: without it, reading a
// page that no longer exists ends the process.
#pragma once
#include "base/status.h"

// Runs fn(ctx) on the calling thread and returns its status. DRV_E_IO: it read a page of a mapped
// file that no longer exists; the message names `what` is read ("the index of a data set"). Memory
// that fn had allocated is leaked then; fn must not hold locks while it reads from maps. Calls may
// nest: the innermost one returns the error.
DRV_CHECKED drv_status bus_error_guard(drv_status (*fn)(void *ctx), void *ctx, const char *what);
