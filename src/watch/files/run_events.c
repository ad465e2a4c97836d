// Defines the fields of each kind of line of events.jsonl; appends and reads such lines.
#include "watch/files/run_events.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/append_file.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

// No line that drover writes comes near this limit, since messages are at most 2 KiB long.
enum { MAX_LINE = 1 << 16, MAX_FIELDS = 9 };
// A file with more events than this is not a journal.
enum { MAX_JOURNAL = 1 << 28 };
// A disk may be slow; the end of a run waits for the lock no longer than this.
enum { LOCK_WAIT_S = 3 };

// --- kinds
// A field and its type: i an integer, n a number, s a string; a capital letter allows null.
typedef struct field {
    char type;
    const char *name;
} field;

static const struct {
    const char *name;
    field fields[MAX_FIELDS + 1];
} kinds[N_EVENT_KINDS] = {
        [EVENT_START] = {"start",
                {{'s', "version"}, {'i', "ranks"}, {'i', "nodes"}, {'s', "host"}, {'i', "pid"},
                        {'s', "job"}, {'I', "restarts"}, {'I', "steps"}, {'s', "backend"}}},
        [EVENT_RESUME] = {"resume",
                {{'i', "step"}, {'S', "from"}, {'i', "lost_steps"}, {'n', "lost_s"}}},
        [EVENT_RUNNING] = {"running", {{'i', "step"}}},
        [EVENT_SAVE] = {"save",
                {{'i', "step"}, {'n', "seconds"}, {'n', "blocked_s"}, {'i', "bytes"}}},
        [EVENT_EVALUATION] = {"evaluation", {{'i', "step"}, {'n', "seconds"}, {'N', "val_loss"}}},
        [EVENT_STOP] = {"stop", {{'i', "step"}, {'S', "signal"}, {'S', "reason"}}},
        [EVENT_STRAGGLER] = {"straggler", {{'i', "rank"}, {'s', "host"}, {'s', "reason"},
                                                  {'n', "ratio"}, {'i', "since_step"}}},
        [EVENT_STRAGGLER_OVER] = {"straggler_over", {{'i', "rank"}, {'s', "host"}, {'i', "step"}}},
        [EVENT_FAILURE] = {"failure",
                {{'I', "rank"}, {'S', "host"}, {'s', "cause"}, {'s', "message"}, {'i', "step"}}},
        [EVENT_END] = {"end", {{'s', "state"}, {'i', "status"}, {'s', "cause"}, {'i', "step"},
                                      {'I', "saved_step"}}},
        [EVENT_RESTART] = {"restart",
                {{'s', "cause"}, {'I', "node"}, {'S', "host"}, {'I', "step"}, {'n', "wait_s"}}},
        [EVENT_EXCLUSION] = {"exclusion", {{'i', "node"}, {'S', "host"}, {'s', "cause"}}},
        [EVENT_LAYOUT] = {"layout", {{'i', "nodes"}, {'i', "ranks"}, {'s', "settings"}}},
};

const char *run_event_name(run_event_kind kind) {
    return kinds[kind].name;
}

const char *run_cause(drv_status status) {
    static const char *const causes[] = {[DRV_OK] = "done",
            [DRV_E_USAGE] = "usage",
            [DRV_E_DATA] = "data",
            [DRV_E_IO] = "io",
            [DRV_E_DEVICE] = "device",
            [DRV_E_PEER] = "peer",
            [DRV_E_FULL] = "full",
            [DRV_E_BUSY] = "busy",
            [DRV_E_FAULT] = "fault",
            [DRV_STOPPED] = "stopped"};
    return causes[status];
}

// --- writing
struct run_events {
    append_file *file;
    bool torn; // the writer of its last line died, so that line needs a line feed first
    int64_t attempt;
    const char *path;
    pthread_mutex_t lock;
};

drv_status run_events_count_starts(const char *run_dir, int64_t *out) {
    run_event_list list;
    DRV_TRY(run_events_read(run_dir, &list));
    *out = 0;
    for (int64_t i = 0; i < list.n; i++)
        *out += list.events[i].kind == EVENT_START;
    run_events_free(&list);
    return DRV_OK;
}

static drv_status look_at_end(const char *path, bool *torn) {
    int64_t n_bytes;
    int fd;
    char last = '\n';
    DRV_TRY(file_open_regular(path, &fd, &n_bytes));
    *torn = n_bytes > 0 && file_read_at(fd, &last, 1, n_bytes - 1) == 1 && last != '\n';
    close(fd);
    return DRV_OK;
}

drv_status run_events_open(arena *a, const char *run_dir, int64_t attempt, run_events **out) {
    int64_t n_starts = attempt - 1;
    if (attempt == 0) DRV_TRY(run_events_count_starts(run_dir, &n_starts));
    run_events *self = ARENA_NEW(a, run_events);
    *self = (run_events){.attempt = n_starts + 1, .path = path_join(a, run_dir, "events.jsonl")};
    DRV_TRY(append_file_open(a, self->path, &self->file));
    const drv_status looked = look_at_end(self->path, &self->torn);
    if (looked != DRV_OK) {
        append_file_close(self->file);
        return looked;
    }
    pthread_mutex_init(&self->lock, NULL);
    *out = self;
    return DRV_OK;
}

int64_t run_events_attempt(const run_events *self) {
    return self->attempt;
}

static json_t *milliseconds(double seconds) {
    return json_real(round(seconds * 1e3) / 1e3);
}

static char *line_of(const run_events *self, run_event_kind kind, json_t *fields) {
    json_t *line = json_object();
    json_object_set_new(line, "time", milliseconds(clock_utc_s()));
    json_object_set_new(line, "mono", milliseconds(clock_s()));
    json_object_set_new(line, "attempt", json_integer(self->attempt));
    json_object_set_new(line, "event", json_string(kinds[kind].name));
    if (fields) json_object_update(line, fields);
    json_decref(fields);
    char *text = json_print(line, JSON_COMPACT);
    json_decref(line);
    return text;
}

drv_status run_events_add(run_events *self, run_event_kind kind, json_t *fields) {
    str text = {0};
    char *line = line_of(self, kind, fields);
    const struct timespec until = clock_after(LOCK_WAIT_S);
    if (pthread_mutex_timedlock(&self->lock, &until) != 0) {
        free(line);
        return drv_fail(DRV_E_BUSY,
                "could not write \"%s\": another line has been waiting for the disk for %d s",
                self->path, LOCK_WAIT_S);
    }
    str_printf(&text, "%s%s\n", self->torn ? "\n" : "", line);
    self->torn = false;
    drv_status status = append_file_add(self->file, text.p, text.n);
    if (status == DRV_OK) status = append_file_sync(self->file);
    pthread_mutex_unlock(&self->lock);
    str_free(&text);
    free(line);
    return status;
}

void run_events_close(run_events *self) {
    if (!self) return;
    append_file_close(self->file);
    pthread_mutex_destroy(&self->lock);
}

// --- reading
static bool is_of_type(const json_t *v, char type) {
    switch (type) {
    case 'I':
        return !v || json_is_null(v) || json_is_integer(v);
    case 'N':
        return !v || json_is_null(v) || json_is_number(v);
    case 'S':
        return !v || json_is_null(v) || json_is_string(v);
    case 'i':
        return json_is_integer(v);
    case 'n':
        return json_is_number(v);
    default:
        return json_is_string(v);
    }
}

static bool holds_fields(const json_t *line, run_event_kind kind) {
    for (const field *f = kinds[kind].fields; f->name; f++)
        if (!is_of_type(json_object_get(line, f->name), f->type)) return false;
    return true;
}

static run_event_kind kind_of(const char *name) {
    run_event_kind kind = 0;
    while (kind < N_EVENT_KINDS && strcmp(name, kinds[kind].name) != 0)
        kind++;
    return kind;
}

// Takes ownership of the line.
static void take_line(json_t *line, run_event_list *out) {
    const json_t *name = json_object_get(line, "event"), *time = json_object_get(line, "time"),
                 *mono = json_object_get(line, "mono"), *attempt = json_object_get(line, "attempt");
    const bool is_event = json_is_string(name) && json_is_number(time) && json_is_number(mono) &&
                          json_is_integer(attempt) && json_integer_value(attempt) >= 1;
    const run_event_kind kind = is_event ? kind_of(json_string_value(name)) : N_EVENT_KINDS;
    if (is_event && kind < N_EVENT_KINDS && holds_fields(line, kind)) {
        MEM_GROW(out->events, out->n, out->cap);
        out->events[out->n++] = (run_event){.kind = kind,
                .time = json_number_value(time),
                .mono = json_number_value(mono),
                .attempt = json_integer_value(attempt),
                .fields = line};
        return;
    }
    if (is_event && kind == N_EVENT_KINDS)
        out->n_unknown++;
    else
        out->n_broken++;
    json_decref(line);
}

void run_events_parse(const char *text, size_t n, run_event_list *out) {
    *out = (run_event_list){0};
    for (const char *line = text, *end; n > 0; n -= (size_t)(end + 1 - line), line = end + 1) {
        end = memchr(line, '\n', n);
        if (!end) {
            out->torn = true;
            return;
        }
        const size_t length = (size_t)(end - line);
        if (length == 0) continue;
        take_line(length > MAX_LINE ? NULL : json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL),
                out);
    }
}

drv_status run_events_read(const char *run_dir, run_event_list *out) {
    arena *a = arena_new("events");
    const char *path = path_join(a, run_dir, "events.jsonl");
    char *text;
    size_t n;
    *out = (run_event_list){0};
    drv_status status = DRV_OK;
    if (file_exists(path)) {
        status = file_read_small(a, path, MAX_JOURNAL, &text, &n);
        if (status == DRV_OK) run_events_parse(text, n, out);
    }
    arena_free(a);
    return status;
}

void run_events_free(run_event_list *list) {
    for (int64_t i = 0; i < list->n; i++)
        json_decref(list->events[i].fields);
    free(list->events);
    *list = (run_event_list){0};
}

bool run_events_begin_attempt(const run_event_list *list, int64_t i) {
    return i == 0 || list->events[i].kind == EVENT_START ||
           list->events[i].attempt != list->events[i - 1].attempt;
}

int64_t run_event_i64(const run_event *e, const char *key, int64_t otherwise) {
    const json_t *value = json_object_get(e->fields, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

double run_event_f64(const run_event *e, const char *key) {
    const json_t *value = json_object_get(e->fields, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

const char *run_event_text(const run_event *e, const char *key) {
    const json_t *value = json_object_get(e->fields, key);
    return json_is_string(value) ? json_string_value(value) : "";
}
