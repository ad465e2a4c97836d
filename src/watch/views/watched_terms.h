// The parts of a run's steps, as planned when the run began and as measured.
#pragma once
#include "base/arena.h"
#include "watch/files/run_events.h"

enum { MAX_WATCHED_TERMS = 16 };

// Sums over the steps for which metrics.jsonl has times of terms, except the first one, which
// touches all memory for the first time.
typedef struct watched_terms {
    int n;
    int64_t steps; // -1: the first one has not been read
    char name[MAX_WATCHED_TERMS][16];
    double seconds[MAX_WATCHED_TERMS], step_s; // sums
} watched_terms;

// Adds a line of metrics.jsonl; invalid content is ignored.
void watched_terms_add(watched_terms *self, const json_t *record);

// A term as planned and measured; NaN: the run's files do not have it.
typedef struct term_pair {
    const char *name;
    double planned_s, measured_s; // of a step
} term_pair;

// Pairs the measured means with the newest plan of the journal: all terms, and the whole step as
// the last one. Returns the number of pairs; 0: there are neither. *device: the profile of the
// plan, "" without one. Lives in `a` or belongs to the events.
int watched_terms_pairs(arena *a, const watched_terms *self, const run_event_list *events,
        const term_pair **out, const char **device);
// Returns a sentence that names the largest difference; "": nothing can be compared.
const char *watched_terms_text(arena *a, const term_pair *pairs, int n);
