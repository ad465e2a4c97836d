// The journal of a run, RUN_DIR/events.jsonl: one line for each thing that happened to it, over all
// of its attempts, only ever appended to. docs/formats.md lists the kinds and their fields.
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
    // These are the launcher's, between attempts.
    EVENT_RESTART,
    EVENT_EXCLUSION,
    EVENT_LAYOUT,
    N_EVENT_KINDS
} run_event_kind;
const char *run_event_name(run_event_kind kind); // "start"

// Says why a run ended, as `cause` has it: of a status alone. What only the caller knows has a name
// of its own: "hang", "not_finite", "memory".
const char *run_cause(drv_status status);
// Returns whether `cause` is one of those that drover writes.
bool run_cause_is_known(const char *cause);

// --- writing
// Appends events of one attempt. Any thread may add. It keeps its file open, so what it adds goes
// to the journal that it was opened for, also when the folder has been moved or replaced since.
typedef struct run_events run_events;
// Opens RUN_DIR/events.jsonl, or makes it. `attempt` 0: the number of "start" lines there and one.
// DRV_E_IO: it cannot be opened, or is no file on a disk. The writer lives in `a` until
// run_events_close.
DRV_CHECKED drv_status run_events_open(arena *a, const char *run_dir, int64_t attempt,
        run_events **out);
int64_t run_events_attempt(const run_events *self);
// Appends one line and fsyncs it; takes over (decrefs) `fields`, an object, NULL: none. A line that
// a crash has left torn is ended first. DRV_E_IO, DRV_E_FULL; DRV_E_BUSY: another thread has been
// writing for seconds.
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
    int64_t n_broken;  // lines that are no events: rubbish, or fields that are missing or wrong
    int64_t n_unknown; // events of a kind that this version does not know
    bool torn;         // the last line has no line feed: it is being written, and left out
} run_event_list;

// Reads lines; never fails on what they hold. run_events_free the list.
void run_events_parse(const char *text, size_t n, run_event_list *out);
// Reads RUN_DIR/events.jsonl; an empty list where there is none. DRV_E_IO: it cannot be read.
DRV_CHECKED drv_status run_events_read(const char *run_dir, run_event_list *out);
void run_events_free(run_event_list *list);

// Returns whether event i is the first of an attempt.
bool run_events_begin_attempt(const run_event_list *list, int64_t i);
// Return a field of an event; where it is absent or null: `otherwise`, NaN, "". The text belongs to
// the list.
int64_t run_event_i64(const run_event *e, const char *key, int64_t otherwise);
double run_event_f64(const run_event *e, const char *key);
const char *run_event_text(const run_event *e, const char *key);
