// Data sets -> fixed rows of T tokens, in an order that is a function of the seed and of how many
// rows were taken: so a resume is instant, and the order is the same for any number of ranks.
//
// The documents of a part (train, valid) stand one after the other and are cut every T tokens, so
// no token is dropped; the last row is filled up with tokens that nobody predicts. An epoch takes
// the rows of a data set in the order of a seeded permutation. Blends take row i from the data set
// that is furthest behind its weight.
#pragma once
#include "base/rng.h"
#include "data/set/dataset.h"

typedef struct row_source_spec {
    const char *prefix;
    double weight;
} row_source_spec;

typedef struct rows_opts {
    const row_source_spec *sources;
    int n_sources;
    int64_t row_tokens, n_vocab;
    uint64_t seed;
    bool shuffle;
    bool documents;              // attention and positions stay inside a document
    double split_from, split_to; // fractions of the documents, 0 to 1
} rows_opts;

typedef struct rows rows; // single owner

DRV_CHECKED drv_status rows_open(arena *a, const rows_opts *o, rows **out);
void rows_close(rows *r);
int64_t rows_per_epoch(const rows *r); // of all sources together
int64_t rows_taken(const rows *r);
// Moves to where `taken` rows have been taken. O(taken) additions only for blends.
void rows_seek(rows *r, int64_t taken);

// The next row: tokens[T], position[T] (from the start of the document, or of the row), labels[T]
// (the next token; -1 where there is none to predict). Adds to *counted the labels that count.
DRV_CHECKED drv_status rows_next(rows *r, int32_t *tokens, int32_t *position, int32_t *labels,
        int64_t *counted);
// "PREFIX row 12 of epoch 0": what rows_next gave last, for messages.
const char *rows_last(const rows *r);
