// The files of a run as its own rank 0 shows them to others: one reader for all threads that do,
// which looks at most once a second, however many ask.
#pragma once
#include "watch/views/watched_run.h"

typedef struct run_view run_view; // thread-safe

// bubble: as in watched_run_open. The view has a copy of `dir`.
run_view *run_view_open(const char *dir, double bubble);
// Returns the run, to be read, not older than a second where its files could be read; no other
// thread has it until run_view_give. *number counts readings: equal numbers, equal content. NULL is
// allowed.
watched_run *run_view_take(run_view *self, int64_t *number);
void run_view_give(run_view *self);
// Sees to it that the next one who takes the run has what the files say then.
void run_view_refresh(run_view *self);
// Reads a little more of a metrics.jsonl that is long; true: there is still more.
bool run_view_catch_up(run_view *self);
void run_view_close(run_view *self);
