// The journal of a run, RUN_DIR/events.jsonl: one line for each event of all its attempts, only
// ever appended to. docs/formats.md lists the kinds and their fields.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

typedef enum run_event_kind {
    EVENT_START,
    EVENT_RESUME,
    EVENT_RUNNING,
    EVENT_SAVE,
    EVENT_EVALUATION,
    EVENT_STOP,
    EVENT_STRAGGLER,
    EVENT_STRAGGLER_OVER,
    EVENT_FAILURE,
    EVENT_END,
    // The launcher adds these between attempts.
    EVENT_RESTART,
    EVENT_EXCLUSION,
    EVENT_LAYOUT,
    N_EVENT_KINDS
} run_event_kind;
const char *run_event_name(run_event_kind kind); // "start"

// Returns the cause for which a status stands, a value of the field `cause`. Other causes, which
// only the caller knows, are "hang", "not_finite" and "memory".
const char *run_cause(drv_status status);

// --- writing
// Appends events of one attempt; any thread may add one. The file stays open, so events go to the
// journal that was opened, even if the folder has been moved or replaced since.
typedef struct run_events run_events;
// Opens or creates RUN_DIR/events.jsonl. `attempt` 0: one more than the number of "start" lines in
// it. DRV_E_IO: it cannot be opened, or it is not a file on a disk. The writer lives in `a` until
// run_events_close.
DRV_CHECKED drv_status run_events_open(arena *a, const char *run_dir, int64_t attempt,
        run_events **out);
int64_t run_events_attempt(const run_events *self);
// Appends one line and fsyncs it; takes ownership of `fields`, an object, or NULL for none. If a
// crash has left the last line torn, a line feed ends it first. DRV_E_IO, DRV_E_FULL; DRV_E_BUSY:
// another thread has been writing for seconds.
DRV_CHECKED drv_status run_events_add(run_events *self, run_event_kind kind, json_t *fields);
void run_events_close(run_events *self); // NULL is allowed

// --- reading
typedef struct run_event {
    run_event_kind kind;
    double time, mono; // seconds since 1970; of the writer's monotonic clock
    int64_t attempt;   // from 1
    json_t *fields;    // the whole object; belongs to the list
} run_event;

typedef struct run_event_list {
    run_event *events; // in the order of the lines
    int64_t n, cap;
    int64_t n_broken;  // lines that are not events, or have missing or wrong fields
    int64_t n_unknown; // events of a kind that this version does not know
    bool torn;         // the last line has no line feed: it is still being written and is left out
} run_event_list;

// Reads lines; no content makes it fail. Free the list by run_events_free.
void run_events_parse(const char *text, size_t n, run_event_list *out);
// Reads RUN_DIR/events.jsonl; an empty list if the file does not exist. DRV_E_IO: it cannot be read.
DRV_CHECKED drv_status run_events_read(const char *run_dir, run_event_list *out);
void run_events_free(run_event_list *list);
// Counts the attempts in the journal of a run.
DRV_CHECKED drv_status run_events_count_starts(const char *run_dir, int64_t *out);

// Returns whether event i is the first of an attempt.
bool run_events_begin_attempt(const run_event_list *list, int64_t i);
// Return a field of an event; if it is absent or null: `otherwise`, NaN or "". The text belongs to
// the list.
int64_t run_event_i64(const run_event *e, const char *key, int64_t otherwise);
double run_event_f64(const run_event *e, const char *key);
const char *run_event_text(const run_event *e, const char *key);
