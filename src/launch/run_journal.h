// Reads a run's status.json for node 0, and adds lines to its events.jsonl.
#pragma once
#include "launch/launch.h"
#include "launch/supervisor.h"
#include "watch/files/run_events.h"
#include "watch/files/run_status.h"

typedef struct run_journal {
    arena *a;
    const char *run_dir;
    int64_t attempt_before; // number of the run's last attempt before this one of ours began
} run_journal;

// Looks up the number of the run's last attempt, 0: none; *saved_step -1: none.
void journal_look(const run_journal *self, int64_t *run_attempt, int64_t *saved_step);
// Reads status.json, where this attempt has written it.
bool journal_said(const run_journal *self, run_status *out);
// Add lines to events.jsonl, about the attempt that has ended or the one that follows it.
void journal_restart(const run_journal *self, const attempt_end *end, const decision *made);
void journal_exclusion(const run_journal *self, const attempt_end *end);
// ranks: of each node.
void journal_layout(const run_journal *self, const attempt_layout *layout, int ranks);
