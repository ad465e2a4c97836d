// A row source makes the rows of one data set's part and gives access to any one of them by its
// index. rows.c decides the order of rows and blends several data sets.
#pragma once
#include "data/set/packed_rows.h"
#include "data/set/rows.h"

typedef struct row_scratch { // shared by all sources of a stream
    int32_t *tokens;         // row_tokens + 1
    unsigned char *roles;    // row_tokens
} row_scratch;

typedef struct row_source {
    const rows_opts *opts;
    const double *shares; // [N_PARTS] their sum is 1; all 0: no split
    row_scratch scratch;
    dataset *set;
    double weight;      // the sum over all sources is 1
    bool by_tokens;     // the parts are cut between tokens, else between documents
    int64_t begin, end; // tokens of this part
    int64_t n_rows;
    row_count so_far;     // rows taken so far
    rows_packing packing; // resolved, never PACKING_AUTO
    rows_loss loss;
    bool packed; // rows are made by `pack`
    packed_rows pack;
    int64_t first_pair;        // index of its first pair among those of all data sets
    const double **references; // the stream's, see rows_set_references
    struct {
        int64_t examples, longer, dropped, unanswered, alike; // the last three are not in the rows
        int64_t shared; // tokens of pairs that are stored once for both responses
    } count;
} row_source;

// The caller sets opts, shares, scratch and weight. Fails as rows_open does; close it even then.
DRV_CHECKED drv_status row_source_open(arena *a, const char *prefix, row_source *src);
void row_source_close(row_source *src);
// Reads row `row` of n_rows, in the order of the data.
DRV_CHECKED drv_status row_source_read(const row_source *src, int64_t row, const row_out *out);
// Returns the largest number of documents in a row, padding counted as one, computed from their
// lengths alone; 0: not known (rows of pairs, or the index has become shorter).
int64_t row_source_most_documents(const row_source *src);
// Returns the source's entry in rows_fingerprint; the caller owns it.
json_t *row_source_fingerprint(const row_source *src);
