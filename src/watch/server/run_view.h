// Reads the files of a run for all observers on rank 0: one reader for all threads, which reads at
// most once a second, however many ask.
#pragma once
#include "watch/views/watched_run.h"

typedef struct run_view run_view; // thread-safe

// bubble: as for watched_run_open. The view copies `dir`.
run_view *run_view_open(const char *dir, double bubble);
// Returns the run for reading, at most a second old if its files can be read, and locks it until
// run_view_give. *number counts the readings: the content is equal if the numbers are. NULL is
// allowed.
watched_run *run_view_take(run_view *self, int64_t *number);
void run_view_give(run_view *self);
// Makes the next run_view_take read the files.
void run_view_refresh(run_view *self);
// Reads a little more of a long metrics.jsonl; returns whether there is still more.
bool run_view_catch_up(run_view *self);
void run_view_close(run_view *self);
