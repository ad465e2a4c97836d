// Classifies the wall time of a run from its first start to its last end, over all attempts, by
// events.jsonl and metrics.jsonl. The classes add up to the wall time exactly. The
// functions are pure.
// Within an attempt times are those of the monotonic clock of rank 0. Between attempts, which may
// run on different hosts, they are UTC; a negative gap counts as none and is reported. Seconds of a
// step are means over the ranks, if metrics.jsonl has them.
#pragma once
#include "base/arena.h"
#include "watch/files/run_events.h"

typedef enum ledger_class {
    LEDGER_COMPUTE,       // of steps that count, like the next two
    LEDGER_COMMUNICATION, // waiting for messages of other ranks, without the bubble
    LEDGER_BUBBLE,        // idle time in the schedule of a pipeline
    LEDGER_DATA,          // waiting for rows
    LEDGER_SAVE,          // waiting for checkpoints
    LEDGER_EVALUATION,
    LEDGER_START, // from the start of an attempt to its first step: rendezvous, load, compile
    LEDGER_LOST,  // steps that were repeated, and the time of a failed attempt after its last step
    LEDGER_DOWN,  // no attempt runs, after one that failed
    LEDGER_STOPPED, // no attempt runs, after one that finished or was asked to stop
    LEDGER_OTHER,   // between steps: agreement of ranks, logs
    N_LEDGER_CLASSES
} ledger_class;
const char *ledger_name(ledger_class class); // "exposed communication"
const char *ledger_key(ledger_class class);  // "communication", for JSON

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
    double from_s, until_s, running_s;     // running_s: when its first step began; NaN: never
    const run_event *start, *end;          // NULL: the journal has none
    const run_event *failure;              // the first one, or NULL
    int64_t lost_steps;                    // that the next attempt repeated
    double seconds[N_LEDGER_CLASSES];
} ledger_attempt;

typedef struct ledger_sums {
    double seconds[N_LEDGER_CLASSES], wall_s;
    double goodput; // (compute + communication + bubble) / (wall time - STOPPED); NaN: not known
    int64_t n_steps, n_lost_steps;
    int n_attempts, n_negative; // n_negative: gaps between attempts below zero
    const ledger_attempt *attempts;
} ledger_sums;

typedef struct ledger ledger; // single owner

// `events` must outlive the ledger, which lives in `a`. bubble: the share of a step in which the
// schedule of a pipeline leaves a rank idle; 0 without a pipeline.
ledger *ledger_new(arena *a, const run_event_list *events, double bubble);
// Adds steps in the order of the file; a number that is not finite and positive counts as zero.
void ledger_add(ledger *self, const ledger_step *step);
// Returns the sums so far; attempts live in `a`. More steps may be added afterwards.
ledger_sums ledger_close(arena *a, const ledger *made);
// Returns a ledger of the same steps for a journal that has grown since. NULL: attempts have
// resumed since, and the steps must be read again.
ledger *ledger_again(arena *a, const run_event_list *events, const ledger *before);
