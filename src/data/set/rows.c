// Rows of training and evaluation from data sets: which tokens, in which order, what each predicts.
#include "data/set/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

typedef struct source {
    dataset *d;
    double weight;      // of a sum of 1
    bool by_tokens;     // the parts are cut between tokens, else between documents
    int64_t begin, end; // tokens of this part
    int64_t n_rows, taken;
} source;

struct rows {
    rows_opts o;
    double shares[N_PARTS]; // of a sum of 1; all 0: no split
    source *sources;
    int64_t taken;
    int32_t *buffer; // T + 1 tokens
    char last[512];
};

// --- the part of a data set
typedef struct span { // of tokens
    int64_t begin, end;
} span;

static int64_t boundary(const source *s, double share, bool by_tokens) {
    if (by_tokens) return llround(share * (double)s->d->n_tokens);
    return dataset_document_start(s->d, llround(share * (double)s->d->n_documents));
}

static span part_of(const rows *r, const source *s, rows_part part, bool by_tokens) {
    double from = 0;
    for (int i = 0; i < (int)part; i++)
        from += r->shares[i];
    const double to = from + r->shares[part];
    if (r->shares[PART_TRAIN] + r->shares[PART_VALID] + r->shares[PART_TEST] == 0)
        return (span){0, s->d->n_tokens};
    return (span){boundary(s, from, by_tokens),
            to > 1 - 1e-12 ? s->d->n_tokens : boundary(s, to, by_tokens)};
}

// Training and validation both need a row. The test part does not decide: nothing reads it in a
// run, and its usual share is so small that most sets would be cut between tokens.
static bool needs_cut_by_tokens(const rows *r, const source *s) {
    for (rows_part part = PART_TRAIN; part <= PART_VALID; part++) {
        const span x = part_of(r, s, part, false);
        if (r->shares[part] > 0 && x.end - x.begin < 2) return true;
    }
    return false;
}

// A document of one token predicts nothing and is predicted by nothing.
static bool has_pair(const rows *r, const source *s) {
    if (s->end - s->begin < 2) return false;
    if (!r->o.documents) return true;
    int64_t document = dataset_document_of(s->d, s->begin), begin = s->begin;
    while (begin < s->end) {
        const int64_t next = dataset_document_start(s->d, ++document);
        const int64_t end = next < s->end ? next : s->end;
        if (end - begin >= 2) return true;
        begin = next;
    }
    return false;
}

static drv_status nothing_to_predict(const rows *r, const source *s) {
    static const char *const names[N_PARTS] = {"training", "validation", "the test"};
    const dataset *d = s->d;
    if (d->n_tokens >= 2 && s->end - s->begin < 2)
        return drv_fail(DRV_E_DATA,
                "%s: data.split leaves %lld of %lld tokens for %s, expected 2 or more; give it a "
                "larger share, or name another data set in data.valid",
                d->prefix, (long long)(s->end - s->begin), (long long)d->n_tokens,
                names[r->o.part]);
    return drv_fail(DRV_E_DATA,
            "%s: nothing to predict: none of its documents has 2 tokens or more (%lld documents, "
            "%lld tokens)",
            d->prefix, (long long)d->n_documents, (long long)d->n_tokens);
}

static drv_status open_source(arena *a, rows *r, int i, double total_weight) {
    source *s = &r->sources[i];
    const row_source_spec *spec = &r->o.sources[i];
    DRV_TRY(dataset_open(a, spec->prefix, &s->d));
    s->weight = spec->weight / total_weight;
    s->by_tokens = needs_cut_by_tokens(r, s);
    const span x = part_of(r, s, r->o.part, s->by_tokens);
    s->begin = x.begin;
    s->end = x.end;
    if (s->weight <= 0) return DRV_OK;
    if (!has_pair(r, s)) return nothing_to_predict(r, s);
    // The last token is only predicted, so it does not begin a row.
    s->n_rows = (s->end - s->begin - 2) / r->o.row_tokens + 1;
    if (s->by_tokens && r->o.part == PART_TRAIN)
        log_info("%s: too few documents (%lld) for data.split: cut between tokens, %lld of %lld for "
                 "training",
                s->d->prefix, (long long)s->d->n_documents, (long long)(s->end - s->begin),
                (long long)s->d->n_tokens);
    return DRV_OK;
}

drv_status rows_open(arena *a, const rows_opts *o, rows **out) {
    rows *r = ARENA_NEW(a, rows);
    r->o = *o;
    r->sources = ARENA_ARRAY(a, source, o->n_sources);
    double weight = 0, share = 0;
    for (int i = 0; i < o->n_sources; i++)
        weight += o->sources[i].weight;
    if (!(weight > 0))
        return drv_fail(DRV_E_USAGE, "the weights of the data sets sum to %g, expected more than 0",
                weight);
    for (int i = 0; i < N_PARTS; i++)
        share += o->split[i];
    for (int i = 0; i < N_PARTS && share > 0; i++)
        r->shares[i] = o->split[i] / share;
    for (int i = 0; i < o->n_sources; i++) {
        const drv_status status = open_source(a, r, i, weight);
        if (status != DRV_OK) {
            rows_close(r);
            return status;
        }
    }
    r->buffer = ARENA_ARRAY(a, int32_t, o->row_tokens + 1);
    *out = r;
    return DRV_OK;
}

void rows_close(rows *r) {
    for (int i = 0; i < r->o.n_sources; i++)
        if (r->sources[i].d) dataset_close(r->sources[i].d);
}

// --- the order
int64_t rows_per_epoch(const rows *r) {
    int64_t n = 0;
    for (int i = 0; i < r->o.n_sources; i++)
        n += r->sources[i].n_rows;
    return n;
}

int64_t rows_taken(const rows *r) {
    return r->taken;
}

static source *furthest_behind(rows *r) {
    source *best = NULL;
    double largest = -HUGE_VAL;
    for (int i = 0; i < r->o.n_sources; i++) {
        source *s = &r->sources[i];
        const double behind = s->weight * (double)(r->taken + 1) - (double)s->taken;
        if (s->weight > 0 && behind > largest) largest = behind, best = s;
    }
    return best;
}

// In order: the first that has rows of this epoch left.
static source *first_unfinished(rows *r) {
    const int64_t epoch = r->taken / rows_per_epoch(r);
    for (int i = 0; i < r->o.n_sources; i++) {
        source *s = &r->sources[i];
        if (s->taken < (epoch + 1) * s->n_rows) return s;
    }
    return NULL; // not reached: the epoch would be over
}

void rows_seek(rows *r, int64_t taken) {
    const int64_t n = rows_per_epoch(r), epoch = taken / n;
    int64_t left = taken % n; // of the epoch that is begun
    for (int i = 0; i < r->o.n_sources; i++) {
        source *s = &r->sources[i];
        const int64_t of_it = left < s->n_rows ? left : s->n_rows;
        s->taken = r->o.shuffle ? 0 : epoch * s->n_rows + of_it;
        left -= of_it;
    }
    r->taken = taken;
    if (!r->o.shuffle) return;
    if (r->o.n_sources == 1) {
        r->sources[0].taken = taken;
        return;
    }
    for (r->taken = 0; r->taken < taken; r->taken++)
        furthest_behind(r)->taken++;
}

// --- one row
// Labels and positions of `n` tokens from `first`; `have` of them plus one may be in the buffer.
static void mark(const rows *r, const source *s, int64_t first, int64_t n, int64_t have,
        int32_t *position, int32_t *labels, int64_t *counted) {
    const dataset *d = s->d;
    int64_t document = dataset_document_of(d, first), start = first;
    int64_t end = r->o.documents ? dataset_document_start(d, document + 1) : s->end;
    for (int64_t i = 0; i < n; i++) {
        while (r->o.documents && first + i >= end) { // empty documents are passed over
            start = end;
            end = dataset_document_start(d, ++document + 1);
        }
        position[i] = (int32_t)(first + i - start);
        const bool known = i + 1 < have && first + i + 1 < end;
        labels[i] = known ? r->buffer[i + 1] : -1;
        *counted += known;
    }
}

drv_status rows_next(rows *r, int32_t *tokens, int32_t *position, int32_t *labels,
        int64_t *counted) {
    const int64_t width = r->o.row_tokens;
    source *s = r->o.shuffle ? furthest_behind(r) : first_unfinished(r);
    const int64_t epoch = s->taken / s->n_rows, index = s->taken % s->n_rows;
    int64_t row = index;
    if (r->o.shuffle) {
        permutation p = permutation_of((uint64_t)s->n_rows, r->o.seed, (uint64_t)epoch);
        row = (int64_t)permute(&p, (uint64_t)index);
    }
    snprintf(r->last, sizeof r->last, "%s row %lld of epoch %lld", s->d->prefix, (long long)row,
            (long long)epoch);
    const int64_t first = s->begin + row * width;
    const int64_t have = s->end - first < width + 1 ? s->end - first : width + 1;
    DRV_TRY(dataset_read(s->d, first, have, r->o.n_vocab, r->buffer));
    const int64_t n = have < width ? have : width;
    memcpy(tokens, r->buffer, sizeof *tokens * (size_t)n);
    mark(r, s, first, n, have, position, labels, counted);
    for (int64_t i = n; i < width;
            i++) { // past the end: a document of its own that nobody predicts
        tokens[i] = 0;
        position[i] = r->o.documents ? (int32_t)(i - n) : (int32_t)i;
        labels[i] = -1;
    }
    s->taken++;
    r->taken++;
    if (r->taken % 64 == 0) dataset_forget(s->d); // memory must not grow with the data set
    return DRV_OK;
}

const char *rows_last(const rows *r) {
    return r->last;
}

// --- what a run records
int rows_n_sources(const rows *r) {
    return r->o.n_sources;
}

int64_t rows_n_vocab(const rows *r) {
    return r->o.n_vocab;
}

const dataset *rows_source(const rows *r, int i) {
    return r->sources[i].d;
}

static json_t *source_fingerprint(const source *s) {
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->d->idx_hash);
    json_t *prefix = json_string(s->d->prefix); // NULL: a path that is no UTF-8
    return json_pack("{s:o?, s:I, s:I, s:s, s:s?, s:f, s:s}", "prefix", prefix, "tokens",
            (json_int_t)s->d->n_tokens, "documents", (json_int_t)s->d->n_documents, "idx_xxh3",
            hash, "tokenizer_xxh3", s->d->about.tokenizer_hash, "weight", s->weight, "split_by",
            s->by_tokens ? "tokens" : "documents");
}

json_t *rows_fingerprint(const rows *r) {
    static const char *const parts[N_PARTS] = {"train", "valid", "test"};
    json_t *sources = json_array(), *split = json_null();
    for (int i = 0; i < r->o.n_sources; i++)
        json_array_append_new(sources, source_fingerprint(&r->sources[i]));
    if (r->shares[PART_TRAIN] + r->shares[PART_VALID] + r->shares[PART_TEST] > 0)
        split = json_pack("[f, f, f]", r->shares[PART_TRAIN], r->shares[PART_VALID],
                r->shares[PART_TEST]);
    json_t *out = json_pack("{s:o, s:s, s:o, s:s, s:I, s:b, s:I}", "sources", sources, "part",
            parts[r->o.part], "split", split, "packing", r->o.documents ? "documents" : "stream",
            "row_tokens", (json_int_t)r->o.row_tokens, "shuffle", (int)r->o.shuffle, "seed",
            (json_int_t)r->o.seed);
    DRV_ASSERT(out, "out of memory");
    return out;
}
