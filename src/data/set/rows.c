#include "data/set/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct source {
    dataset *d;
    double weight;      // normalised
    int64_t begin, end; // tokens of this part
    int64_t n_rows, taken;
} source;

struct rows {
    rows_opts o;
    source *s;
    int64_t taken;
    int32_t *buffer; // T + 1 tokens
    char last[512];
};

drv_status rows_open(arena *a, const rows_opts *o, rows **out) {
    rows *r = ARENA_NEW(a, rows);
    r->o = *o;
    r->s = ARENA_ARRAY(a, source, o->n_sources);
    double total = 0;
    for (int i = 0; i < o->n_sources; i++)
        total += o->sources[i].weight;
    if (!(total > 0))
        return drv_fail(DRV_E_USAGE, "the weights of the data sets sum to %g, expected more than 0",
                total);
    for (int i = 0; i < o->n_sources; i++) {
        source *s = &r->s[i];
        drv_status status = dataset_open(a, o->sources[i].prefix, &s->d);
        if (status != DRV_OK) {
            rows_close(r);
            return status;
        }
        s->weight = o->sources[i].weight / total;
        const double n = (double)s->d->n_documents;
        s->begin = dataset_document_start(s->d, (int64_t)llround(o->split_from * n));
        s->end = dataset_document_start(s->d, (int64_t)llround(o->split_to * n));
        // The last token is only predicted, so it does not begin a row.
        const int64_t tokens = s->end - s->begin;
        s->n_rows = tokens > 1 ? (tokens - 2) / o->row_tokens + 1 : 0;
        if (s->n_rows == 0 && s->weight > 0) {
            status = drv_fail(DRV_E_DATA,
                    "%s: documents %.0f to %.0f of %lld have %lld tokens, expected 2 or more",
                    s->d->prefix, o->split_from * n, o->split_to * n, (long long)s->d->n_documents,
                    (long long)tokens);
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
        if (r->s[i].d) dataset_close(r->s[i].d);
}

int64_t rows_per_epoch(const rows *r) {
    int64_t n = 0;
    for (int i = 0; i < r->o.n_sources; i++)
        n += r->s[i].n_rows;
    return n;
}

int64_t rows_taken(const rows *r) {
    return r->taken;
}

static source *furthest_behind(rows *r) {
    source *best = NULL;
    double most = -HUGE_VAL;
    for (int i = 0; i < r->o.n_sources; i++) {
        source *s = &r->s[i];
        double behind = s->weight * (double)(r->taken + 1) - (double)s->taken;
        if (s->weight > 0 && behind > most) most = behind, best = s;
    }
    return best;
}

void rows_seek(rows *r, int64_t taken) {
    for (int i = 0; i < r->o.n_sources; i++)
        r->s[i].taken = 0;
    r->taken = 0;
    if (r->o.n_sources == 1) {
        r->s[0].taken = r->taken = taken;
        return;
    }
    for (; r->taken < taken; r->taken++)
        furthest_behind(r)->taken++;
}

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
        bool known = i + 1 < have && first + i + 1 < end;
        labels[i] = known ? r->buffer[i + 1] : -1;
        *counted += known;
    }
}

drv_status rows_next(rows *r, int32_t *tokens, int32_t *position, int32_t *labels,
        int64_t *counted) {
    const int64_t width = r->o.row_tokens;
    source *s = furthest_behind(r);
    const int64_t epoch = s->taken / s->n_rows, index = s->taken % s->n_rows;
    int64_t row = index;
    if (r->o.shuffle) {
        permutation p = permutation_of((uint64_t)s->n_rows, r->o.seed, (uint64_t)epoch);
        row = (int64_t)permute(&p, (uint64_t)index);
    }
    snprintf(r->last, sizeof r->last, "%s row %lld of epoch %lld", s->d->prefix, (long long)row,
            (long long)epoch);
    const int64_t first = s->begin + row * width;
    int64_t have = s->end - first < width + 1 ? s->end - first : width + 1;
    DRV_TRY(dataset_read(s->d, first, have, r->o.n_vocab, r->buffer));
    const int64_t n = have < width ? have : width;
    memcpy(tokens, r->buffer, sizeof *tokens * (size_t)n);
    mark(r, s, first, n, have, position, labels, counted);
    for (int64_t i = n; i < width;
            i++) { // beyond the end: a document of its own that nobody predicts
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
