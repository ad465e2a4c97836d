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
        {"ended_twice", offsetof(build_counts, ended_twice)},
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

drv_status build_journal_read(const char *path, uint64_t task, build_counts *counts, bool *found) {
    json_t *root = NULL;
    char id[24];
    const char *task_there = NULL;
    build_counts x = {0};
    *found = false;
    if (!file_exists(path)) return DRV_OK;
    if (json_read_file(path, &root) != DRV_OK ||
            json_get_str(path, root, "task", &task_there) != DRV_OK || !task_there) {
        json_decref(root);
        return drv_fail(DRV_E_USAGE,
                "\"%s\" is not the journal of a build, expected JSON with \"task\"; choose another prefix by --out, or remove the file",
                path);
    }
    snprintf(id, sizeof id, "%016llx", (unsigned long long)task);
    *found = strcmp(task_there, id) == 0;
    for (int i = 0; *found && i < N_COUNTS; i++)
        *found = json_get_i64(path, root, counts_of_journal[i].key, count_at(&x, i)) == DRV_OK;
    json_decref(root);
    if (*found)
        *counts = x;
    else
        log_info("%s: belongs to another build; the build starts over", path);
    return DRV_OK;
}
