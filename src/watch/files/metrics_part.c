// Bisects a file whose lines are in the order of their steps.
#include "watch/files/metrics_part.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { LINE_MAX_BYTES = 1 << 22, NARROW = 1 << 17, TAIL_BYTES = 1 << 18 };

typedef struct part_file {
    int fd;
    const char *path;
    int64_t bytes;
    str line; // the last line that was read
} part_file;

// Reads the first whole line that begins at or after `at` (`middle`: `at` may be inside a line,
// which is skipped) and sets *end to the offset of the next one. Returns false if there is none.
static bool read_line(part_file *file, int64_t at, bool middle, int64_t *end) {
    char chunk[4096];
    str_clear(&file->line);
    bool skips = middle && at > 0;
    if (skips) at--; // a line feed there ends the line before
    for (;;) {
        const int64_t n = file_read_at(file->fd, chunk, sizeof chunk, at);
        if (n <= 0) return false;
        const char *feed, *p = chunk, *stop = chunk + n;
        if (skips) {
            feed = memchr(p, '\n', (size_t)n);
            p = feed ? feed + 1 : stop;
            skips = !feed;
        }
        feed = p < stop ? memchr(p, '\n', (size_t)(stop - p)) : NULL;
        const char *until = feed ? feed : stop;
        if (file->line.n < LINE_MAX_BYTES) str_add(&file->line, p, (size_t)(until - p));
        at += feed ? feed + 1 - chunk : n;
        *end = at;
        if (feed) return true;
    }
}

static json_t *parse(const part_file *file, int64_t *step) {
    json_t *record = NULL;
    if (!file->line.n || json_read_bytes(file->path, file->line.p, file->line.n, &record) != DRV_OK)
        return NULL;
    const json_t *field = json_object_get(record, "step");
    if (json_is_integer(field)) {
        *step = json_integer_value(field);
        return record;
    }
    json_decref(record);
    return NULL;
}

// Returns the step of the first record at or after an offset, or `none` if there is none.
static int64_t step_after(part_file *file, int64_t at, int64_t none) {
    int64_t step = 0, end = at;
    for (bool middle = true; read_line(file, end, middle, &end); middle = false) {
        json_t *record = parse(file, &step);
        json_decref(record);
        if (record) return step;
    }
    return none;
}

// Returns an offset shortly before the first record of that step or a later one.
static int64_t find_place(part_file *file, int64_t from) {
    int64_t low = 0, high = file->bytes;
    while (high - low > NARROW) {
        const int64_t middle = low + (high - low) / 2;
        if (step_after(file, middle, INT64_MAX) >= from)
            high = middle;
        else
            low = middle;
    }
    return low;
}

static void add_records(part_file *file, int64_t from, str *out) {
    int64_t at = find_place(file, from), next = from, step = 0;
    int n = 0;
    bool more = false;
    str_printf(out, "{\"from\": %lld, \"records\": [", (long long)from);
    for (bool middle = true; !more && read_line(file, at, middle, &at); middle = false) {
        json_t *record = parse(file, &step);
        const bool wanted = record && step >= from;
        json_decref(record);
        if (!wanted) continue;
        // A step and its evaluation have the same number and stay together.
        if ((n >= PART_RECORDS || out->n > PART_BYTES) && step >= next) {
            more = true;
            break;
        }
        str_puts(out, n++ ? ",\n" : "\n");
        str_add(out, file->line.p, file->line.n);
        if (step < INT64_MAX) next = step + 1;
    }
    str_printf(out, "], \"next\": %lld, \"more\": %s}\n", (long long)next, more ? "true" : "false");
}

drv_status metrics_part(const char *path, int64_t from, str *out) {
    part_file file = {.path = path, .fd = -1};
    if (file_exists(path)) DRV_TRY(file_open_regular(path, &file.fd, &file.bytes));
    add_records(&file, from, out);
    str_free(&file.line);
    if (file.fd >= 0) close(file.fd);
    return DRV_OK;
}

// --- the newest record
// Returns the record of the last line that has the key; the text consists of whole lines.
static json_t *last_with(const char *text, size_t n, const char *key) {
    while (n > 0) {
        const char *feed = n > 1 ? memrchr(text, '\n', n - 1) : NULL;
        const size_t begin = feed ? (size_t)(feed + 1 - text) : 0;
        json_t *record = json_loadb(text + begin, n - 1 - begin, 0, NULL);
        if (json_object_get(record, key)) return record;
        json_decref(record);
        n = begin;
    }
    return NULL;
}

json_t *metrics_newest(const char *path, const char *key) {
    arena *a = arena_new("the end of a file");
    char *text;
    size_t n;
    const bool there = file_read_tail(a, path, TAIL_BYTES, &text, &n) == DRV_OK;
    const char *end = there ? memrchr(text, '\n', n) : NULL;
    json_t *record = end ? last_with(text, (size_t)(end + 1 - text), key) : NULL;
    arena_free(a);
    return record;
}
