// Reads a run's status.json and appends to its events.jsonl, for node 0.
#pragma once
#include "launch/launch.h"
#include "launch/supervisor.h"
#include "watch/files/run_events.h"
#include "watch/files/run_status.h"

typedef struct run_journal {
    arena *a;
    const char *run_dir;
    int64_t attempt_before; // the run's last attempt when ours began
} run_journal;

// Finds the number of the run's last attempt, 0: none; *saved_step -1: no checkpoint.
void journal_read_progress(const run_journal *self, int64_t *run_attempt, int64_t *saved_step);
// Reads status.json; false unless this attempt has written it.
bool journal_read_status(const run_journal *self, run_status *out);
// Add lines to events.jsonl about the attempt that has ended, or about the next one.
void journal_restart(const run_journal *self, const attempt_end *end, const decision *made);
void journal_exclusion(const run_journal *self, const attempt_end *end);
// ranks: of each node.
void journal_layout(const run_journal *self, const attempt_layout *layout, int ranks);
