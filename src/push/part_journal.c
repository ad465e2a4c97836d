// A journal is JSON Lines: the hub's action first, then {"part": N, "etag": TEXT} for each part.
#include "push/part_journal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

enum { MAX_BYTES = 256 << 20 };

// The name depends on the hub, the repository and the object.
static const char *path_of(arena *a, const http_link *link, const char *repo,
        const lfs_object *object) {
    const char *folder = path_user_cache(a, "drover/push");
    char sum[HASH_TEXT_BYTES];
    const char *what = arena_printf(a, "%s %s %s", link->endpoint, repo, object->sha256);
    if (!folder || dir_make(folder) != DRV_OK ||
            bytes_hash(what, strlen(what), HASH_SHA256, sum) != DRV_OK)
        return NULL;
    return arena_printf(a, "%s/%.32s.jsonl", folder, sum);
}

void part_journal_read(arena *a, const http_link *link, const char *repo, const lfs_object *object,
        part_journal *out, json_t **action, json_t **parts) {
    char *text = NULL;
    size_t left = 0;
    *out = (part_journal){.path = path_of(a, link, repo, object), .fd = -1};
    *action = NULL;
    *parts = json_object();
    if (!out->path || !file_exists(out->path) ||
            file_read_small(a, out->path, MAX_BYTES, &text, &left) != DRV_OK)
        return;
    for (char *line = text, *end; (end = memchr(line, '\n', left)); line = end + 1) {
        const size_t length = (size_t)(end - line);
        json_t *value = NULL;
        left -= length + 1;
        if (json_parse(line, length, &value) != DRV_OK) return; // torn: the last one
        const json_t *number = json_object_get(value, "part");
        if (!*action) {
            *action = json_incref(value);
        } else if (json_is_integer(number)) {
            char key[32];
            snprintf(key, sizeof key, "%lld", (long long)json_integer_value(number));
            json_object_set(*parts, key, json_object_get(value, "etag"));
        }
        json_decref(value);
    }
}

// Takes over (decrefs) the value.
static void add_line(part_journal *self, json_t *value) {
    str text = {0};
    json_print_to(&text, value, JSON_COMPACT);
    str_puts(&text, "\n");
    if (self->fd >= 0 && file_write_all(self->fd, self->path, text.p, text.n) != DRV_OK) {
        log_file_only("%s", drv_message());
        part_journal_close(self);
    }
    str_free(&text);
}

void part_journal_begin(part_journal *self, const json_t *action) {
    if (!self->path) return;
    const int fresh = action ? O_TRUNC : O_APPEND;
    self->fd = open(self->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | fresh, 0600);
    if (action) add_line(self, json_copy((json_t *)(uintptr_t)action));
}

void part_journal_add(part_journal *self, int number, const char *etag) {
    if (self->fd < 0) return;
    json_t *line = json_pack("{s:i, s:s}", "part", number, "etag", etag);
    if (line) add_line(self, line);
}

void part_journal_close(part_journal *self) {
    if (self->fd >= 0) close(self->fd);
    self->fd = -1;
}

void part_journal_remove(part_journal *self) {
    part_journal_close(self);
    if (self->path) unlink(self->path);
}
