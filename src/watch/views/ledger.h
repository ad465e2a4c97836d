// Sums up where the wall time of a run went, from its first start to its last end, over all
// attempts: pure functions of what events.jsonl and metrics.jsonl say. The classes add up to the
// wall time exactly.
//
// Clocks: within an attempt the monotonic clock of rank 0; between attempts, which may be of
// different hosts, UTC, where a gap below zero counts as none and is told. Seconds of a step are
// the means over the ranks, where metrics.jsonl has them.
#pragma once
#include "base/arena.h"
#include "watch/files/run_events.h"

typedef enum ledger_class {
    LEDGER_COMPUTE,       // of steps that count, as are the next two
    LEDGER_COMMUNICATION, // waited for messages of others, without the bubble
    LEDGER_BUBBLE,        // of a pipeline's schedule
    LEDGER_DATA,          // waited for rows
    LEDGER_SAVE,          // waited for checkpoints
    LEDGER_EVALUATION,
    LEDGER_START,   // rendezvous, load, compile: until the first step of an attempt
    LEDGER_LOST,    // steps done again, and what a failed attempt spent after its last step
    LEDGER_DOWN,    // no attempt alive, after one that failed or vanished
    LEDGER_STOPPED, // no attempt alive, after one that was done or was asked to stop
    LEDGER_OTHER,   // between steps: agreement, logs
    N_LEDGER_CLASSES
} ledger_class;
const char *ledger_name(ledger_class class); // "exposed communication"
const char *ledger_key(ledger_class class);  // "communication", of JSON

// A step of metrics.jsonl, in seconds of rank 0.
typedef struct ledger_step {
    int64_t step;
    double step_s, data_s, save_s;
    // Means over the ranks and the steps since the last such line, if the line of the step has
    // them.
    bool shared;
    double rank_compute_s, rank_data_s, rank_wait_s;
} ledger_step;

// An attempt, for the time line of a report. Times in seconds from the first start.
typedef struct ledger_attempt {
    int64_t number, first_step, last_step; // steps that count; last_step < first_step: none
    double from_s, until_s, running_s; // running_s: its first step began; NaN: it never came to it
    const run_event *start, *end;      // NULL: the journal has none
    const run_event *failure;          // the first; NULL
    int64_t lost_steps;                // done again by the next
    double seconds[N_LEDGER_CLASSES];
} ledger_attempt;

typedef struct ledger_sums {
    double seconds[N_LEDGER_CLASSES], wall_s;
    double goodput; // compute, communication and bubble over the wall time without STOPPED; NaN: none
    int64_t n_steps, n_lost_steps;
    int n_attempts, n_negative; // gaps between attempts that were below zero
    const ledger_attempt *attempts;
} ledger_sums;

typedef struct ledger ledger; // single owner

// `events` must outlive the ledger, which lives in `a`. bubble: the share of a step that the
// schedule of a pipeline leaves a rank idle, 0 without one.
ledger *ledger_new(arena *a, const run_event_list *events, double bubble);
// Steps in the order of the file; a number that is no finite one above zero counts as zero.
void ledger_add(ledger *self, const ledger_step *step);
// Returns the sums so far; attempts live in `a`. More steps may be added afterwards.
ledger_sums ledger_close(arena *a, const ledger *made);
// The same steps with a journal that has grown since. NULL: it tells of attempts that resumed
// since, and the steps have to be read anew.
ledger *ledger_again(arena *a, const run_event_list *events, const ledger *before);
