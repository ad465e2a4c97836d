// Writes, replaces and reads status.json.
#include "watch/files/run_status.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum { VERSION = 1, MAX_BYTES = 1 << 16 };

static const char *const state_names[N_RUN_STATES] = {"starting", "running", "saving", "stopping",
        "ended"};
static const char *const end_names[N_RUN_ENDS] = {NULL, "done", "stopped", "failed"};

const char *run_state_name(run_state_kind state) {
    return state_names[state];
}

const char *run_end_name(run_end end) {
    return end_names[end];
}

run_status run_status_new(void) {
    return (run_status){.state = RUN_STARTING,
            .loss = (double)NAN,
            .tokens_per_s = (double)NAN,
            .eta_s = (double)NAN,
            .host = "",
            .pid = -1,
            .saved_step = -1,
            .exit_status = -1,
            .cause = "",
            .message = "",
            .failed_rank = -1,
            .failed_host = ""};
}

// --- writing
json_t *run_status_json(const run_status *status) {
    json_t *object = json_object();
    json_object_set_new(object, "state", json_string(state_names[status->state]));
    json_object_set_new(object, "time", json_of_f64(status->time));
    json_object_set_new(object, "step", json_of_count(status->step));
    json_object_set_new(object, "steps", json_of_count(status->steps));
    json_object_set_new(object, "loss", json_of_f64(status->loss));
    json_object_set_new(object, "tokens_per_s", json_of_f64(status->tokens_per_s));
    json_object_set_new(object, "eta_s", json_of_f64(status->eta_s));
    json_object_set_new(object, "attempt", json_of_count(status->attempt));
    json_object_set_new(object, "ranks", json_of_count(status->ranks));
    json_object_set_new(object, "nodes", json_of_count(status->nodes));
    json_object_set_new(object, "host", json_of_words(status->host));
    json_object_set_new(object, "pid", json_of_count(status->pid));
    json_object_set_new(object, "saved_step", json_of_count(status->saved_step));
    json_object_set_new(object, "end", json_of_text(end_names[status->end]));
    json_object_set_new(object, "status", json_of_count(status->exit_status));
    json_object_set_new(object, "cause", json_of_words(status->cause));
    json_object_set_new(object, "message", json_of_words(status->message));
    json_object_set_new(object, "failed_rank", json_of_count(status->failed_rank));
    json_object_set_new(object, "failed_host", json_of_words(status->failed_host));
    return object;
}

drv_status run_status_put(int dir_fd, const char *text, size_t n, bool lasts) {
    static const char name[] = "status.json", aside[] = "status.json" FILE_ASIDE;
    const int fd =
            openat(dir_fd, aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return file_fail("create", aside);
    drv_status written = file_write_all(fd, aside, text, n);
    if (written == DRV_OK && lasts && fsync(fd) != 0) written = file_fail("sync", aside);
    close(fd);
    if (written == DRV_OK && renameat(dir_fd, aside, dir_fd, name) != 0)
        written = file_fail("rename into place", name);
    if (written != DRV_OK) unlinkat(dir_fd, aside, 0);
    return written;
}

drv_status run_status_write(int dir_fd, const run_status *status, bool lasts) {
    json_t *object = json_pack("{s:i}", "version", VERSION), *fields = run_status_json(status);
    json_object_update(object, fields);
    json_object_set_new(object, "time", json_real(round(clock_utc_s() * 1e3) / 1e3));
    json_decref(fields);
    char *bytes = json_print(object, JSON_INDENT(2));
    json_decref(object);
    const size_t n = strlen(bytes);
    bytes[n] = '\n'; // in place of the NUL
    const drv_status written = run_status_put(dir_fd, bytes, n + 1, lasts);
    free(bytes);
    return written;
}

drv_status run_status_text(arena *a, const char *run_dir, char **text, size_t *n) {
    return file_read_small(a, path_join(a, run_dir, "status.json"), MAX_BYTES, text, n);
}

// --- reading
typedef struct reader {
    arena *a;
    const char *path;
    const json_t *object;
} reader;

// Reads a non-negative integer, or null where the field may be absent.
static drv_status read_count(const reader *r, const char *key, bool optional, int64_t *out) {
    int64_t value = -1;
    DRV_TRY(json_get_i64(r->path, r->object, key, &value));
    const json_t *there = json_object_get(r->object, key);
    if (value < 0 && !(optional && (!there || json_is_null(there))))
        return drv_fail(DRV_E_DATA, "%s: key \"%s\" is %s, expected a whole number from 0 on",
                r->path, key, there ? "below 0 or null" : "missing");
    *out = value;
    return DRV_OK;
}

static drv_status read_number(const reader *r, const char *key, double *out) {
    *out = (double)NAN;
    return json_get_f64(r->path, r->object, key, out);
}

static drv_status read_text(const reader *r, const char *key, const char **out) {
    const char *value = "";
    DRV_TRY(json_get_str(r->path, r->object, key, &value));
    *out = arena_strdup(r->a, value);
    return DRV_OK;
}

// Reads one of the names; an absent or null field leaves *out as it is.
static drv_status read_name(const reader *r, const char *key, const char *const *names, int n,
        int *out) {
    const char *value = NULL;
    DRV_TRY(json_get_str(r->path, r->object, key, &value));
    if (!value && !names[0]) return DRV_OK;
    const int index = str_index(value, names, n);
    if (index < 0)
        return drv_fail(DRV_E_DATA, "%s: key \"%s\" is \"%.40s\", expected one of \"%s\" to \"%s\"",
                r->path, key, value ? value : "", names[0] ? names[0] : names[1], names[n - 1]);
    *out = index;
    return DRV_OK;
}

static drv_status read_progress(const reader *r, run_status *out) {
    DRV_TRY(read_number(r, "time", &out->time));
    if (isnan(out->time))
        return drv_fail(DRV_E_DATA, "%s: key \"time\" is missing, expected a number", r->path);
    DRV_TRY(read_count(r, "step", false, &out->step));
    DRV_TRY(read_count(r, "steps", false, &out->steps));
    DRV_TRY(read_number(r, "loss", &out->loss));
    DRV_TRY(read_number(r, "tokens_per_s", &out->tokens_per_s));
    DRV_TRY(read_number(r, "eta_s", &out->eta_s));
    DRV_TRY(read_count(r, "attempt", false, &out->attempt));
    DRV_TRY(read_count(r, "ranks", false, &out->ranks));
    DRV_TRY(read_count(r, "nodes", false, &out->nodes));
    DRV_TRY(read_text(r, "host", &out->host));
    DRV_TRY(read_count(r, "pid", true, &out->pid));
    return read_count(r, "saved_step", true, &out->saved_step);
}

static drv_status read_end(const reader *r, run_status *out) {
    int end = RUN_GOES_ON;
    DRV_TRY(read_name(r, "end", end_names, N_RUN_ENDS, &end));
    out->end = (run_end)end;
    DRV_TRY(read_count(r, "status", true, &out->exit_status));
    DRV_TRY(read_text(r, "cause", &out->cause));
    DRV_TRY(read_text(r, "message", &out->message));
    DRV_TRY(read_count(r, "failed_rank", true, &out->failed_rank));
    DRV_TRY(read_text(r, "failed_host", &out->failed_host));
    if ((out->state == RUN_ENDED) != (out->end != RUN_GOES_ON))
        return drv_fail(DRV_E_DATA, "%s: key \"state\" is \"%s\", but \"end\" is %s", r->path,
                state_names[out->state], out->end ? end_names[out->end] : "null");
    return DRV_OK;
}

static drv_status read_object(const reader *r, run_status *out) {
    int64_t version = -1;
    int state = 0;
    if (!json_is_object(r->object)) return drv_fail(DRV_E_DATA, "%s: expected an object", r->path);
    DRV_TRY(json_get_i64(r->path, r->object, "version", &version));
    if (version != VERSION)
        return drv_fail(DRV_E_DATA, "%s: key \"version\" is %lld, expected %d", r->path,
                (long long)version, VERSION);
    DRV_TRY(read_name(r, "state", state_names, N_RUN_STATES, &state));
    out->state = (run_state_kind)state;
    DRV_TRY(read_progress(r, out));
    return read_end(r, out);
}

drv_status run_status_parse(arena *a, const char *path, const char *text, size_t n,
        run_status *out) {
    json_t *object;
    if (n > MAX_BYTES)
        return drv_fail(DRV_E_DATA, "%s: %zu bytes, expected at most %d", path, n, MAX_BYTES);
    run_status read = run_status_new();
    DRV_TRY(json_read_bytes(path, text, n, &object));
    const drv_status status = read_object(&(reader){a, path, object}, &read);
    json_decref(object);
    if (status == DRV_OK) *out = read;
    return status;
}

drv_status run_status_read(arena *a, const char *run_dir, run_status *out) {
    char *bytes;
    size_t n;
    DRV_TRY(run_status_text(a, run_dir, &bytes, &n));
    return run_status_parse(a, path_join(a, run_dir, "status.json"), bytes, n, out);
}
