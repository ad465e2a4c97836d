// Observers show a run to others while it goes on (watch/server/run_observer.h): which there are,
// and when they begin and end.
#pragma once
#include "base/arena.h"
#include "config/config.h"

typedef struct observers observers;

// Rank 0, once the run directory is taken and the table of ranks is there. Whoever cannot begin is
// warned of, and the run goes on without it.
observers *observers_begin(arena *a, const run_config *cfg);
// Ends them, after status.json says how the run ended; takes seconds at most. Any thread may call
// it, and again: it returns when they have ended. NULL is allowed.
void observers_end(observers *self);
