// Rows of training and evaluation from data sets: the order in which they come, and how sets are
// blended.
#include "data/set/rows.h"

#include <math.h>
#include <stdio.h>

#include "data/set/row_source.h"

struct rows {
    rows_opts opts;
    double shares[N_PARTS]; // of a sum of 1; all 0: no split
    row_source *sources;
    int64_t taken;
    int64_t blended; // of all sources together
    int64_t n_read;  // rows that were laid out, others passed over
    int64_t n_pairs;
    const double *references;
    char last[512];
};

drv_status rows_open(arena *a, const rows_opts *opts, rows **out) {
    rows *stream = ARENA_NEW(a, rows);
    stream->opts = *opts;
    stream->sources = ARENA_ARRAY(a, row_source, opts->n_sources);
    double weight = 0, share = 0;
    for (int i = 0; i < opts->n_sources; i++)
        weight += opts->sources[i].weight;
    if (!(weight > 0))
        return drv_fail(DRV_E_USAGE, "the weights of the data sets sum to %g, expected more than 0",
                weight);
    for (int i = 0; i < N_PARTS; i++)
        share += opts->split[i];
    for (int i = 0; i < N_PARTS && share > 0; i++)
        stream->shares[i] = opts->split[i] / share;
    const row_scratch scratch = {ARENA_ARRAY(a, int32_t, opts->row_tokens + 1),
            ARENA_ARRAY(a, unsigned char, opts->row_tokens)};
    for (int i = 0; i < opts->n_sources; i++) {
        row_source *src = &stream->sources[i];
        *src = (row_source){.opts = &stream->opts,
                .shares = stream->shares,
                .scratch = scratch,
                .first_pair = stream->n_pairs,
                .references = &stream->references,
                .weight = opts->sources[i].weight / weight};
        const drv_status status = row_source_open(a, opts->sources[i].prefix, src);
        if (status != DRV_OK) {
            rows_close(stream);
            return status;
        }
        stream->n_pairs += src->set->about.pairs;
    }
    *out = stream;
    return DRV_OK;
}

void rows_close(rows *stream) {
    for (int i = 0; i < stream->opts.n_sources; i++)
        row_source_close(&stream->sources[i]);
}

// --- the order
int64_t rows_per_epoch(const rows *stream) {
    int64_t n = 0;
    for (int i = 0; i < stream->opts.n_sources; i++)
        n += stream->sources[i].n_rows;
    return n;
}

int64_t rows_longest(const rows *stream) {
    int64_t longest = 0;
    for (int i = 0; i < stream->opts.n_sources; i++) {
        const packed_rows *pack = &stream->sources[i].pack;
        for (int64_t k = 0; k < (pack->n_rows ? pack->row[pack->n_rows] : 0); k++)
            if (pack->pieces[k].n > longest) longest = pack->pieces[k].n;
    }
    return longest;
}

int64_t rows_packed_tokens(const rows *stream) {
    int64_t n = 0;
    for (int i = 0; i < stream->opts.n_sources; i++)
        n += stream->sources[i].pack.n_tokens;
    return n;
}

int64_t rows_most_documents(const rows *stream) {
    int64_t most = 0;
    for (int i = 0; i < stream->opts.n_sources; i++) {
        const row_source *src = &stream->sources[i];
        const int64_t n = src->weight > 0 ? row_source_most_documents(src) : 0;
        if (n == 0 && src->weight > 0) return 0;
        if (n > most) most = n;
    }
    return most;
}

int64_t rows_taken(const rows *stream) {
    return stream->taken;
}

// Returns by how much a data set is behind its weight before row `row` of a blend.
static double behind(double weight, int64_t row, int64_t taken) {
    return weight > 0 ? weight * (double)(row + 1) - (double)taken : -HUGE_VAL;
}

static row_source *furthest_behind(rows *stream) {
    row_source *best = NULL;
    double largest = -HUGE_VAL;
    for (int i = 0; i < stream->opts.n_sources; i++) {
        row_source *src = &stream->sources[i];
        const double x = behind(src->weight, stream->blended, src->so_far.blended);
        if (x > largest) largest = x, best = src;
    }
    return best;
}

void rows_blend(const double *weights, int n_sets, int64_t n, int64_t *out) {
    for (int i = 0; i < n_sets; i++)
        out[i] = 0;
    for (int64_t row = 0; row < n; row++) {
        int best = 0;
        for (int i = 1; i < n_sets; i++)
            if (behind(weights[i], row, out[i]) > behind(weights[best], row, out[best])) best = i;
        out[best]++;
    }
}

static void take(rows *stream, row_source *src, int64_t n) {
    src->so_far.taken += n;
    src->so_far.blended += n;
    stream->taken += n;
    stream->blended += n;
}

// In order: the first that has rows of this epoch left.
static row_source *first_unfinished(rows *stream) {
    const int64_t epoch = stream->taken / rows_per_epoch(stream);
    for (int i = 0; i < stream->opts.n_sources; i++) {
        row_source *src = &stream->sources[i];
        if (src->so_far.taken < (epoch + 1) * src->n_rows) return src;
    }
    return NULL; // not reached: the epoch would be over
}

void rows_seek(rows *stream, int64_t taken) {
    const int64_t n = rows_per_epoch(stream), epoch = taken / n;
    int64_t left = taken % n; // of the epoch that is begun
    for (int i = 0; i < stream->opts.n_sources; i++) {
        row_source *src = &stream->sources[i];
        const int64_t of_it = left < src->n_rows ? left : src->n_rows;
        src->so_far = (row_count){.taken = stream->opts.shuffle ? 0 : epoch * src->n_rows + of_it};
        left -= of_it;
    }
    stream->blended = 0;
    stream->taken = stream->opts.shuffle ? 0 : taken;
    if (stream->opts.shuffle) rows_skip(stream, taken);
}

void rows_skip(rows *stream, int64_t n) {
    if (!stream->opts.shuffle)
        rows_seek(stream, stream->taken + n);
    else if (stream->opts.n_sources == 1)
        take(stream, &stream->sources[0], n);
    else
        for (int64_t i = 0; i < n; i++)
            take(stream, furthest_behind(stream), 1);
}

void rows_counts(const rows *stream, row_count *out) {
    for (int i = 0; i < stream->opts.n_sources; i++)
        out[i] = stream->sources[i].so_far;
}

void rows_go_to(rows *stream, int64_t taken, const row_count *of) {
    stream->taken = taken;
    stream->blended = 0;
    for (int i = 0; i < stream->opts.n_sources; i++) {
        stream->sources[i].so_far = of[i];
        stream->blended += of[i].blended;
    }
}

void rows_begin(rows *stream, bool shuffle) {
    stream->opts.shuffle = shuffle;
    rows_seek(stream, 0);
}

int64_t rows_n_pairs(const rows *stream) {
    return stream->n_pairs;
}

void rows_set_references(rows *stream, const double *values) {
    stream->references = values;
}

const double *rows_references(const rows *stream) {
    return stream->references;
}

drv_status rows_next(rows *stream, const row_out *out) {
    row_source *src = stream->opts.shuffle ? furthest_behind(stream) : first_unfinished(stream);
    const int64_t epoch = src->so_far.taken / src->n_rows, index = src->so_far.taken % src->n_rows;
    int64_t row = index;
    if (stream->opts.shuffle) {
        permutation p = permutation_of((uint64_t)src->n_rows, stream->opts.seed, (uint64_t)epoch);
        row = (int64_t)permute(&p, (uint64_t)index);
    }
    snprintf(stream->last, sizeof stream->last, "%s row %lld of epoch %lld", src->set->prefix,
            (long long)row, (long long)epoch);
    DRV_TRY(row_source_read(src, row, out));
    take(stream, src, 1);
    if (++stream->n_read % 64 == 0)
        dataset_forget(src->set); // memory must not grow with the data set
    return DRV_OK;
}

const char *rows_last(const rows *stream) {
    return stream->last;
}

// --- the fingerprint that a run records
int rows_n_sources(const rows *stream) {
    return stream->opts.n_sources;
}

int64_t rows_n_vocab(const rows *stream) {
    return stream->opts.n_vocab;
}

const dataset *rows_source(const rows *stream, int i) {
    return stream->sources[i].set;
}

row_cut rows_cut(const rows *stream, int i) {
    const row_source *src = &stream->sources[i];
    return (row_cut){.weight = src->weight,
            .n = src->n_rows,
            .row_tokens = stream->opts.row_tokens,
            .begin = src->begin,
            .end = src->end};
}

json_t *rows_fingerprint(const rows *stream) {
    static const char *const parts[N_PARTS] = {"train", "valid", "test"};
    json_t *sources = json_array(), *split = json_null();
    for (int i = 0; i < stream->opts.n_sources; i++)
        json_array_append_new(sources, row_source_fingerprint(&stream->sources[i]));
    if (stream->shares[PART_TRAIN] + stream->shares[PART_VALID] + stream->shares[PART_TEST] > 0)
        split = json_pack("[f, f, f]", stream->shares[PART_TRAIN], stream->shares[PART_VALID],
                stream->shares[PART_TEST]);
    json_t *out = json_pack("{s:o, s:s, s:o, s:I, s:b, s:I}", "sources", sources, "part",
            parts[stream->opts.part], "split", split, "row_tokens",
            (json_int_t)stream->opts.row_tokens, "shuffle", (int)stream->opts.shuffle, "seed",
            (json_int_t)stream->opts.seed);
    DRV_MEMORY(out, "a table or a state of some KiB");
    return out;
}
