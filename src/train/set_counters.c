// Writes and reads counters of data sets, and converts them for a run with other sets or rows.
#include "train/set_counters.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"

typedef struct counter {
    const json_t *entry;
    const char *prefix, *hash;
    row_cut cut; // end 0: the tokens are unknown, since an earlier version wrote it
    row_count count;
    bool found; // it matches a data set of this run
} counter;

// --- as JSON
json_t *set_counters_json(const rows *stream, const row_count *counts, const json_t *kept) {
    json_t *out = json_array();
    for (int i = 0; i < rows_n_sources(stream); i++) {
        const dataset *set = rows_source(stream, i);
        const row_cut cut = rows_cut(stream, i);
        if (cut.weight <= 0) continue;
        char hash[24];
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)set->idx_hash);
        json_array_append_new(out,
                json_pack("{s:o?, s:s, s:[I, I], s:I, s:I, s:f, s:I, s:I}", "prefix",
                        json_string(set->prefix), "idx_xxh3", hash, "token_range",
                        (json_int_t)cut.begin, (json_int_t)cut.end, "row_tokens",
                        (json_int_t)cut.row_tokens, "rows", (json_int_t)cut.n, "weight", cut.weight,
                        "taken", (json_int_t)counts[i].taken, "blended",
                        (json_int_t)counts[i].blended));
    }
    if (kept) json_array_extend(out, (json_t *)(uintptr_t)kept);
    return out;
}

static drv_status read_counter(const char *path, const json_t *entry, counter *out) {
    const json_t *tokens = json_object_get(entry, "token_range");
    *out = (counter){.entry = entry, .count = {-1, -1}};
    DRV_TRY(json_get_str(path, entry, "prefix", &out->prefix));
    DRV_TRY(json_get_str(path, entry, "idx_xxh3", &out->hash));
    DRV_TRY(json_get_i64(path, entry, "row_tokens", &out->cut.row_tokens));
    DRV_TRY(json_get_i64(path, entry, "rows", &out->cut.n));
    DRV_TRY(json_get_f64(path, entry, "weight", &out->cut.weight));
    DRV_TRY(json_get_i64(path, entry, "taken", &out->count.taken));
    DRV_TRY(json_get_i64(path, entry, "blended", &out->count.blended));
    out->cut.begin = json_integer_value(json_array_get(tokens, 0));
    out->cut.end = json_integer_value(json_array_get(tokens, 1));
    return DRV_OK;
}

drv_status set_counters_check(const char *path, const json_t *trainer) {
    const json_t *sets = json_object_get(trainer, "sets");
    if (sets && !json_is_array(sets))
        return drv_fail(DRV_E_DATA, "%s: \"sets\" is not an array", path);
    for (size_t i = 0; i < json_array_size(sets); i++) {
        enum { MAX_ROW = 1 << 24 }; // the limit of data.sequence_length
        counter c;
        const json_t *entry = json_array_get(sets, i);
        if (!json_is_object(entry))
            return drv_fail(DRV_E_DATA, "%s: \"sets\"[%zu] is not an object", path, i);
        DRV_TRY_CTX(read_counter(path, entry, &c), "\"sets\"[%zu]", i);
        const bool fits = c.hash && c.cut.row_tokens >= 1 && c.cut.row_tokens <= MAX_ROW &&
                          c.cut.n >= 1 && (double)c.cut.n <= 0x1p53 && c.count.taken >= 0 &&
                          (double)c.count.taken <= 0x1p53 && c.count.blended >= 0 &&
                          c.count.blended <= c.count.taken;
        if (fits) continue;
        return drv_fail(DRV_E_DATA,
                "%s: \"sets\"[%zu] has %lld rows of %lld tokens, taken %lld, blended %lld: expected idx_xxh3, at least one "
                "row of one token, and 0 <= blended <= taken",
                path, i, (long long)c.cut.n, (long long)c.cut.row_tokens, (long long)c.count.taken,
                (long long)c.count.blended);
    }
    return DRV_OK;
}

// Makes counters from a file of an earlier version, which counted all rows together, as if the run
// had always had its last weights.
static int read_earlier(arena *a, const json_t *before, int64_t rows_taken, counter **out) {
    const json_t *data = json_object_get(before, "data"),
                 *sources = json_object_get(data, "sources");
    const int n = (int)json_array_size(sources);
    counter *list = ARENA_ARRAY(a, counter, n);
    double *weights = ARENA_ARRAY(a, double, n), sum = 0;
    int64_t *taken = ARENA_ARRAY(a, int64_t, n), row_tokens = 0;
    if (json_get_i64("", data, "row_tokens", &row_tokens) != DRV_OK || row_tokens < 1) return 0;
    for (int i = 0; i < n; i++) {
        if (read_counter("", json_array_get(sources, (size_t)i), &list[i]) != DRV_OK) return 0;
        sum += weights[i] = list[i].cut.weight;
        list[i].cut = (row_cut){.weight = weights[i], .row_tokens = row_tokens};
    }
    if (!(sum > 0)) return 0;
    if (n == 1)
        taken[0] = rows_taken;
    else
        rows_blend(weights, n, rows_taken, taken);
    for (int i = 0; i < n; i++)
        list[i].count = (row_count){taken[i], taken[i]};
    *out = list;
    return n;
}

static int read_counters(arena *a, const json_t *before, int64_t rows_taken, counter **out) {
    const json_t *sets = json_object_get(before, "sets");
    const int n = (int)json_array_size(sets);
    if (!sets) return read_earlier(a, before, rows_taken, out);
    *out = ARENA_ARRAY(a, counter, n);
    for (int i = 0; i < n; i++)
        if (read_counter("", json_array_get(sets, (size_t)i), &(*out)[i]) != DRV_OK) return 0;
    return n;
}

// --- matching counters and data sets
static bool same(const char *x, const char *y) {
    return x && y && strcmp(x, y) == 0;
}

// Finds the counter of each set: one with the same prefix and tokens, else one with the same tokens
// (moved), else one with the same prefix (built again). NULL: the set is new.
static counter **match(arena *a, const rows *stream, counter *list, int n) {
    enum { SAME_PREFIX = 1, SAME_HASH = 2 };
    static const int passes[] = {SAME_PREFIX | SAME_HASH, SAME_HASH, SAME_PREFIX};
    const int n_sets = rows_n_sources(stream);
    counter **of = ARENA_ARRAY(a, counter *, n_sets);
    for (size_t pass = 0; pass < sizeof passes / sizeof *passes; pass++)
        for (int i = 0; i < n_sets; i++) {
            const dataset *set = rows_source(stream, i);
            char hash[24];
            snprintf(hash, sizeof hash, "%016llx", (unsigned long long)set->idx_hash);
            for (int k = 0; k < n && !of[i]; k++) {
                if (list[k].found) continue;
                const int alike = (same(list[k].prefix, set->prefix) ? SAME_PREFIX : 0) |
                                  (same(list[k].hash, hash) ? SAME_HASH : 0);
                if ((alike & passes[pass]) != passes[pass]) continue;
                list[k].found = true;
                of[i] = &list[k];
            }
        }
    return of;
}

// --- converting counters
// Converts the rows taken from a set into rows of this run. If the tokens are the same, whole
// epochs stay whole, since each has all tokens once; else the number of tokens stays the same.
static int64_t convert_taken(const counter *c, const rows *stream, int i) {
    const row_cut cut = rows_cut(stream, i);
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)rows_source(stream, i)->idx_hash);
    const bool same_tokens = c->cut.end > 0 && same(c->hash, hash) && c->cut.begin == cut.begin &&
                             c->cut.end == cut.end;
    double taken;
    if (same_tokens) {
        const int64_t epochs = c->count.taken / c->cut.n, rest = c->count.taken % c->cut.n;
        taken = (double)epochs * (double)cut.n +
                floor((double)rest * (double)cut.n / (double)c->cut.n);
    } else {
        taken = floor((double)c->count.taken * (double)c->cut.row_tokens / (double)cut.row_tokens);
    }
    return (int64_t)fmin(taken, 0x1p53);
}

static bool blend_is_unchanged(const rows *stream, counter *const *of, const counter *list, int n,
        const row_count *counts) {
    enum { DIGITS = 1000000000 }; // that a weight keeps when it is written and read
    for (int i = 0; i < rows_n_sources(stream); i++) {
        const double weight = rows_cut(stream, i).weight;
        if (weight <= 0 && !of[i]) continue;
        if (!of[i] || fabs(of[i]->cut.weight - weight) * DIGITS > 1) return false;
        if (weight > 0 && of[i]->count.taken != counts[i].taken) return false;
    }
    for (int k = 0; k < n; k++)
        if (!list[k].found && list[k].cut.weight > 0) return false;
    return true;
}

static void log_set(const rows *stream, int i, const counter *c, const row_count *now) {
    const char *prefix = rows_source(stream, i)->prefix;
    const row_cut cut = rows_cut(stream, i);
    const long long taken = now->taken, epoch = now->taken / cut.n, row = now->taken % cut.n;
    if (!c) {
        log_info("data set %s is new to this run, which reads it from its first row on", prefix);
        return;
    }
    if (c->count.taken != now->taken || c->cut.row_tokens != cut.row_tokens)
        log_info("data set %s: the %lld rows of %lld tokens that were taken count as %lld of %lld tokens",
                prefix, (long long)c->count.taken, (long long)c->cut.row_tokens, taken,
                (long long)cut.row_tokens);
    str share = {0};
    if (cut.weight < 1) str_printf(&share, "; its share of the rows to come is %.3g", cut.weight);
    log_info("data set %s: continues after %lld of the %lld rows of its epoch %lld%s", prefix, row,
            (long long)cut.n, epoch, share.p ? share.p : "");
    str_free(&share);
}

// Returns the counters of data sets that have no rows in this run, and so no share of its blend.
static json_t *unused_counters(const rows *stream, counter *const *of, const counter *list, int n) {
    json_t *out = json_array();
    for (int k = 0; k < n; k++) {
        bool has_rows = false;
        for (int i = 0; i < rows_n_sources(stream); i++)
            has_rows |= of[i] == &list[k] && rows_cut(stream, i).weight > 0;
        if (has_rows || list[k].cut.n < 1) continue;
        json_t *entry = json_deep_copy(list[k].entry);
        json_object_set_new(entry, "weight", json_real(0));
        json_object_set_new(entry, "blended", json_integer(0));
        json_array_append_new(out, entry);
        if (list[k].cut.weight > 0)
            log_info("data set %s: not used from here on, after %lld rows",
                    list[k].prefix ? list[k].prefix : list[k].hash, (long long)list[k].count.taken);
    }
    return out;
}

json_t *set_counters_resume(rows *stream, const json_t *before, int64_t rows_taken) {
    arena *a = arena_new("counters of data sets");
    counter *list = NULL;
    const int n_sets = rows_n_sources(stream), n = read_counters(a, before, rows_taken, &list);
    row_count *counts = ARENA_ARRAY(a, row_count, n_sets);
    counter **of = match(a, stream, list, n);
    for (int i = 0; i < n_sets; i++) {
        if (!of[i] || rows_cut(stream, i).weight <= 0) continue;
        counts[i] = (row_count){convert_taken(of[i], stream, i), of[i]->count.blended};
    }
    json_t *kept = unused_counters(stream, of, list, n);
    if (n == 0) {
        rows_seek(stream, rows_taken); // it is unknown which sets the rows came from
    } else {
        if (!blend_is_unchanged(stream, of, list, n, counts))
            for (int i = 0; i < n_sets; i++) {
                counts[i].blended = 0;
                if (rows_cut(stream, i).weight > 0) log_set(stream, i, of[i], &counts[i]);
            }
        rows_go_to(stream, rows_taken, counts);
    }
    arena_free(a);
    return kept;
}

int64_t set_counters_taken(const rows *stream) {
    arena *a = arena_new("counters of data sets");
    row_count *counts = ARENA_ARRAY(a, row_count, rows_n_sources(stream));
    int64_t taken = 0;
    rows_counts(stream, counts);
    for (int i = 0; i < rows_n_sources(stream); i++)
        if (rows_cut(stream, i).weight > 0) taken += counts[i].taken;
    arena_free(a);
    return taken;
}
