// A line of JSON, {"key": ..., "pairs": n, "xxh3": of the values}, then the values, little endian.
#include "data/set/reference_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"

enum { HASH_TEXT = 17 };

static void hash_text(const void *p, size_t n, char out[HASH_TEXT]) {
    snprintf(out, HASH_TEXT, "%016llx", (unsigned long long)XXH3_64bits(p, n));
}

char *reference_file_path(arena *a, const char *prefix, const char *key) {
    char hash[HASH_TEXT];
    hash_text(key, strlen(key), hash);
    return arena_printf(a, "%s.reference-%s", prefix, hash);
}

static drv_status check_key(const char *path, const json_t *head, const char *key) {
    const json_t *found = json_object_get(head, "key");
    if (!json_is_object(found))
        return drv_fail(DRV_E_DATA, "%s: \"key\" is not an object, expected %.200s", path, key);
    char *text = json_print(found, JSON_COMPACT);
    const bool same = strcmp(text, key) == 0;
    const drv_status status =
            same ? DRV_OK
                 : drv_fail(DRV_E_DATA, "%s: \"key\" is %.200s, expected %.200s", path, text, key);
    free(text);
    return status;
}

static drv_status check_values(const char *path, const json_t *head, const char *values,
        size_t n_bytes, int64_t n) {
    char hash[HASH_TEXT];
    int64_t pairs = -1;
    const char *recorded = "";
    DRV_TRY(json_get_i64(path, head, "pairs", &pairs));
    if (pairs != n)
        return drv_fail(DRV_E_DATA, "%s: \"pairs\" is %lld, expected %lld", path, (long long)pairs,
                (long long)n);
    if (n_bytes != 2 * sizeof(double) * (size_t)n)
        return drv_fail(DRV_E_DATA, "%s: %zu bytes of values, expected %lld", path, n_bytes,
                (long long)(2 * sizeof(double)) * (long long)n);
    DRV_TRY(json_get_str(path, head, "xxh3", &recorded));
    hash_text(values, n_bytes, hash);
    if (strcmp(recorded, hash) == 0) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: the hash of its values is %s, expected \"%.16s\": it is damaged", path, hash,
            recorded);
}

drv_status reference_file_parse(const char *path, const void *bytes, size_t n_bytes,
        const char *key, int64_t n, double *values) {
    const char *end = n_bytes ? memchr(bytes, '\n', n_bytes) : NULL;
    json_t *head;
    if (!end)
        return drv_fail(DRV_E_DATA, "%s: its first line is missing, expected a JSON object", path);
    const size_t n_head = (size_t)(end - (const char *)bytes) + 1;
    DRV_TRY(json_read_bytes(path, bytes, n_head, &head));
    drv_status status = check_key(path, head, key);
    if (status == DRV_OK) status = check_values(path, head, end + 1, n_bytes - n_head, n);
    json_decref(head);
    if (status != DRV_OK) return status;
    memcpy(values, end + 1, n_bytes - n_head);
    for (int64_t i = 0; i < 2 * n; i++)
        if (values[i] > 0 || isinf(values[i]))
            return drv_fail(DRV_E_DATA,
                    "%s: value %lld is %g, expected the logarithm of a probability", path,
                    (long long)i, values[i]);
    return DRV_OK;
}

drv_status reference_file_read(const char *path, const char *key, int64_t n, double *values) {
    arena *a = arena_new("reference log-probabilities");
    char *bytes;
    size_t n_bytes;
    drv_status status = file_read(a, path, &bytes, &n_bytes);
    if (status == DRV_OK) status = reference_file_parse(path, bytes, n_bytes, key, n, values);
    arena_free(a);
    return status;
}

drv_status reference_file_write(const char *path, const char *key, int64_t n,
        const double *values) {
    const size_t n_bytes = 2 * sizeof *values * (size_t)n;
    char hash[HASH_TEXT];
    str all = {0};
    hash_text(values, n_bytes, hash);
    str_printf(&all, "{\"key\":%s,\"pairs\":%lld,\"xxh3\":\"%s\"}\n", key, (long long)n, hash);
    str_add(&all, (const char *)values, n_bytes);
    const drv_status status = file_write_atomic(path, all.p, all.n);
    str_free(&all);
    return status;
}

// --- of rows
// All that decides the values of a set, as JSON in one line.
static char *key_of(arena *a, const rows *of, int source, const char *model,
        const char *precision) {
    static const char *const fields[] = {"idx_xxh3", "roles_xxh3", "packing", "long"};
    json_t *print = rows_fingerprint(of), *split = json_object_get(print, "split"),
           *set = json_array_get(json_object_get(print, "sources"), (size_t)source),
           *key = json_object();
    json_object_set_new(key, "model", json_string(model));
    json_object_set_new(key, "precision", json_string(precision));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        json_object_set(key, fields[i], json_object_get(set, fields[i]));
    json_object_set(key, "row_tokens", json_object_get(print, "row_tokens"));
    if (json_is_array(split)) {
        json_object_set(key, "split", split);
        json_object_set(key, "part", json_object_get(print, "part"));
    }
    json_decref(print);
    return json_print_in(a, key, JSON_COMPACT);
}

// Counts the pairs of a set that rows have; the others are NaN.
static int64_t n_known(const double *values, int64_t n) {
    int64_t known = 0;
    for (int64_t i = 0; i < n; i++)
        known += !isnan(values[2 * i]);
    return known;
}

static void say_known(const char *what, const double *values, int64_t n, const char *path) {
    const int64_t known = n_known(values, n);
    log_info("reference: log-probabilities of %lld pair%s %s %s", (long long)known,
            str_plural(known), what, path);
}

drv_status references_load(const rows *of, const char *model, const char *precision, bool say,
        double *values) {
    arena *a = arena_new("references");
    drv_status status = DRV_OK;
    for (int i = 0; i < rows_n_sources(of) && status == DRV_OK; i++) {
        const dataset *set = rows_source(of, i);
        const char *key = key_of(a, of, i, model, precision),
                   *path = reference_file_path(a, set->prefix, key);
        const bool there = file_exists(path);
        status = reference_file_read(path, key, set->about.pairs, values);
        if (status == DRV_OK)
            say_known("from", values, set->about.pairs, path);
        else if (there && say)
            log_warn("%s; the reference's log-probabilities in this file cannot be used",
                    drv_message());
        values += 2 * set->about.pairs;
    }
    arena_free(a);
    return status;
}

void references_keep(const rows *of, const char *model, const char *precision,
        const double *values) {
    arena *a = arena_new("references");
    for (int i = 0; i < rows_n_sources(of); i++) {
        const dataset *set = rows_source(of, i);
        const char *key = key_of(a, of, i, model, precision),
                   *path = reference_file_path(a, set->prefix, key);
        if (reference_file_write(path, key, set->about.pairs, values) == DRV_OK)
            say_known("kept in", values, set->about.pairs, path);
        else
            log_warn("%s; the reference's log-probabilities will be computed again at the next start",
                    drv_message());
        values += 2 * set->about.pairs;
    }
    arena_free(a);
}
