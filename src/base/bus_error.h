// Reading maps of files that others may shorten: without this, touching a page that is gone ends
// the process.
#pragma once
#include "base/status.h"

// Runs fn(ctx) and returns its status; DRV_E_IO, naming `what`, when it touched a page of a mapped
// file that is no longer there. What fn had allocated by hand is leaked then, and it must not hold
// locks while it reads from maps. Per thread; does not nest.
DRV_CHECKED drv_status bus_error_guard(drv_status (*fn)(void *ctx), void *ctx, const char *what);
