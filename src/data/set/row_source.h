// A source of rows is one data set of rows.h: the part of it that rows are made of, their number,
// and access to any one of them. rows.c decides their order and blends several sets.
#pragma once
#include "data/set/packed_rows.h"
#include "data/set/rows.h"

typedef struct row_scratch { // shared by the sources of a stream
    int32_t *tokens;         // row_tokens + 1
    unsigned char *roles;    // row_tokens
} row_scratch;

typedef struct row_source {
    const rows_opts *opts;
    const double *shares; // [N_PARTS] of a sum of 1; all 0: no split
    row_scratch scratch;
    dataset *set;
    double weight;      // of a sum of 1
    bool by_tokens;     // the parts are cut between tokens, else between documents
    int64_t begin, end; // tokens of this part
    int64_t n_rows;
    row_count so_far;     // the rows that were taken
    rows_packing packing; // what PACKING_AUTO and LOSS_AUTO mean here
    rows_loss loss;
    bool packed; // rows are those of `pack`
    packed_rows pack;
    int64_t first_pair;        // number of its first pair among those of all sets
    const double **references; // of the stream: rows_set_references
    struct {
        int64_t examples, longer, dropped, unanswered, alike; // not in the rows: the last three
        int64_t shared; // tokens of pairs in the rows that stand there once for both responses
    } count;
} row_source;

// opts, shares, scratch and weight are set. Fails as rows_open does; close it in any case.
DRV_CHECKED drv_status row_source_open(arena *a, const char *prefix, row_source *src);
void row_source_close(row_source *src);
// Row `row` of n_rows, in the order of the data.
DRV_CHECKED drv_status row_source_read(const row_source *src, int64_t row, const row_out *out);
// Counts the documents of the row that has most, what fills it up among them, from their lengths
// alone; 0: not known, of rows of pairs.
int64_t row_source_most_documents(const row_source *src);
// Its entry in rows_fingerprint; the caller owns it.
json_t *row_source_fingerprint(const row_source *src);
