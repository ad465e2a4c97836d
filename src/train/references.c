// The reference's log-probabilities: one file for each data set, read by rank 0.
#include "train/references.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "data/set/reference_file.h"
#include "train/evaluate.h"
#include "train/ranks.h"

drv_status references_model(run *r, const char **out) {
    state_hashes hashes;
    uint64_t hash;
    if (r->base_hashes) {
        char *text = json_dumps(r->base_hashes, JSON_COMPACT | JSON_SORT_KEYS);
        hash = XXH3_64bits(text, strlen(text));
        free(text);
    } else {
        arena *mem = arena_new("hash of the reference");
        const drv_status status = hashes_begin(mem, &r->p.held, 0, &hashes);
        hash = status == DRV_OK ? hashes.before.all : 0;
        arena_free(mem);
        DRV_TRY(status);
    }
    *out = arena_printf(r->a, "%016llx", (unsigned long long)hash);
    return DRV_OK;
}

// All that decides the values of a set, as JSON in one line.
static char *key_of(arena *a, const run *r, const rows *of, int source, const char *model) {
    json_t *print = rows_fingerprint(of),
           *set = json_array_get(json_object_get(print, "sources"), (size_t)source),
           *key = json_object(), *split = json_object_get(print, "split");
    static const char *const fields[] = {"idx_xxh3", "roles_xxh3", "long"};
    json_object_set_new(key, "model", json_string(model));
    json_object_set_new(key, "precision", json_string(precision_name(r->cfg->precision)));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        json_object_set(key, fields[i], json_object_get(set, fields[i]));
    json_object_set(key, "row_tokens", json_object_get(print, "row_tokens"));
    if (json_is_array(split)) {
        json_object_set(key, "split", split);
        json_object_set(key, "part", json_object_get(print, "part"));
    }
    char *text = json_print(key, JSON_COMPACT), *copy = arena_strdup(a, text);
    free(text);
    json_decref(key);
    json_decref(print);
    return copy;
}

// What to do with the values of a set: [2 pairs], in `path`.
typedef drv_status (*each_set)(const char *path, const char *key, int64_t n, double *values);

static drv_status for_sets(const run *r, const rows *of, const char *model, double *values,
        each_set fn) {
    arena *mem = arena_new("references");
    drv_status status = DRV_OK;
    for (int i = 0; i < rows_n_sources(of) && status == DRV_OK; i++) {
        const dataset *set = rows_source(of, i);
        const char *key = key_of(mem, r, of, i, model);
        status = fn(reference_file_path(mem, set->prefix, key), key, set->about.pairs, values);
        values += 2 * set->about.pairs;
    }
    arena_free(mem);
    return status;
}

static drv_status read_set(const char *path, const char *key, int64_t n, double *values) {
    if (!file_exists(path)) return drv_fail(DRV_E_IO, "%s", "");
    const drv_status status = reference_file_read(path, key, n, values);
    if (status == DRV_OK)
        log_info("reference: log-probabilities of %lld pair%s from %s", (long long)n, str_plural(n),
                path);
    else
        log_warn("%s; the reference's log-probabilities are computed again", drv_message());
    return status;
}

static drv_status write_set(const char *path, const char *key, int64_t n, double *values) {
    if (reference_file_write(path, key, n, values) == DRV_OK)
        log_info("reference: log-probabilities of %lld pair%s kept in %s", (long long)n,
                str_plural(n), path);
    else
        log_warn("%s; the reference's log-probabilities will be computed again at the next start",
                drv_message());
    return DRV_OK;
}

// The rows of the run that there are, and how many.
static int rows_of_run(const run *r, rows *out[2]) {
    out[0] = r->train_rows;
    out[1] = r->valid_rows;
    return r->valid_rows ? 2 : 1;
}

// Of one of them, from the files. *found: on all ranks alike.
static drv_status read_rows(run *r, rows *of, const char *model, bool *found) {
    double *values = ARENA_ARRAY(r->a, double, 2 * rows_n_pairs(of));
    comm_group *world = comm_world(r->comm);
    int64_t there = r->leads && for_sets(r, of, model, values, read_set) == DRV_OK;
    DRV_TRY(comm_broadcast(world, 0, &there, sizeof there));
    *found = there;
    if (!there) return DRV_OK;
    DRV_TRY(comm_broadcast(world, 0, values, 2 * rows_n_pairs(of) * (int64_t)sizeof *values));
    rows_set_references(of, values);
    return DRV_OK;
}

drv_status references_read(run *r, const char *model, bool *found) {
    rows *of[2];
    const int n = rows_of_run(r, of);
    *found = true;
    for (int i = 0; i < n && *found; i++)
        DRV_TRY(read_rows(r, of[i], model, found));
    return DRV_OK;
}

drv_status references_compute(run *r, const char *model) {
    rows *of[2];
    const int n = rows_of_run(r, of);
    for (int i = 0; i < n; i++) {
        bool found; // those that an earlier run left, or those of the same rows
        DRV_TRY(read_rows(r, of[i], model, &found));
        if (found) continue;
        double *values = ARENA_ARRAY(r->a, double, 2 * rows_n_pairs(of[i]));
        const double begin_s = clock_s();
        rows_begin(of[i], false);
        DRV_TRY(evaluate_pairs(&r->p, of[i], r->comm, values));
        rows_begin(of[i], i == 0); // the first are those of training
        rows_set_references(of[i], values);
        progress_end();
        if (!r->leads) continue;
        log_info("reference: log-probabilities of %s pairs computed in %s",
                i == 0 ? "training" : "validation", str_duration(clock_s() - begin_s));
        DRV_TRY(for_sets(r, of[i], model, values, write_set));
    }
    return DRV_OK;
}
