// Starts and ends the observers, which show a run to others while it runs
// (watch/server/run_observer.h).
#pragma once
#include "base/arena.h"
#include "config/config.h"

typedef struct observers observers;

// Starts the observers on rank 0, after the run directory is taken and the table of ranks exists.
// If one cannot start, a warning is logged and the run continues without it.
observers *observers_begin(arena *a, const run_config *cfg);
// Ends them, after status.json says how the run ended; takes seconds at most. Any thread may call
// it, repeatedly: it returns when they have ended. NULL is allowed.
void observers_end(observers *self);
