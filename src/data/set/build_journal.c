// The journal of a build as JSON: one row of the table below for each count.
#include "data/set/build_journal.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

static const struct {
    const char *key;
    size_t offset;
} counts_of_journal[] = {{"files", offsetof(build_counts, files)},
        {"documents", offsetof(build_counts, documents)},
        {"tokens", offsetof(build_counts, tokens)}, {"bytes", offsetof(build_counts, bytes)},
        {"skipped", offsetof(build_counts, skipped)},
        {"replaced", offsetof(build_counts, replaced)},
        {"largest_id", offsetof(build_counts, largest_id)},
        {"largest_at", offsetof(build_counts, largest_at)},
        {"answers", offsetof(build_counts, answers)},
        {"last_answers", offsetof(build_counts, last_answers)},
        {"no_answer", offsetof(build_counts, no_answer)}};
enum { N_COUNTS = sizeof counts_of_journal / sizeof *counts_of_journal };

static int64_t *count_at(build_counts *counts, int i) {
    return (int64_t *)(void *)((char *)counts + counts_of_journal[i].offset);
}

drv_status build_journal_write(const char *path, uint64_t task, const build_counts *counts) {
    build_counts x = *counts;
    char id[24];
    snprintf(id, sizeof id, "%016llx", (unsigned long long)task);
    json_t *root = json_object();
    json_object_set_new(root, "task", json_string(id));
    for (int i = 0; i < N_COUNTS; i++)
        json_object_set_new(root, counts_of_journal[i].key, json_integer(*count_at(&x, i)));
    return json_write_file(path, root);
}

bool build_journal_read(const char *path, uint64_t task, build_counts *counts) {
    json_t *root;
    char id[24];
    const char *found = "";
    build_counts x = {0};
    if (!file_exists(path)) return false;
    if (json_read_file(path, &root) != DRV_OK) {
        log_info("%s; the build starts over", drv_message());
        return false;
    }
    snprintf(id, sizeof id, "%016llx", (unsigned long long)task);
    bool ok = json_get_str(path, root, "task", &found) == DRV_OK && strcmp(found, id) == 0;
    for (int i = 0; ok && i < N_COUNTS; i++)
        ok = json_get_i64(path, root, counts_of_journal[i].key, count_at(&x, i)) == DRV_OK;
    json_decref(root);
    if (!ok) {
        log_info("%s: belongs to another build or is broken; the build starts over", path);
        return false;
    }
    *counts = x;
    return true;
}
