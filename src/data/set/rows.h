// Turns data sets into fixed rows of T tokens. The row at each position depends only on the seed
// and the position, so a resumed run seeks without reading, and the order is the same for any
// number of ranks.
//
// The documents of a part (training, validation, test) are concatenated and cut every T tokens, so
// no token is dropped; the last row is padded with tokens without a loss. Alternatively, whole
// examples are packed into rows (packed_rows.h), or windows over documents, in which each token has
// all the context that fits (rows_opts.stride).
// - shuffled (training): an epoch takes the rows of a data set in the order of a seeded
//   permutation. Blends take row i from the data set that is furthest behind its weight.
// - in order (evaluation): the rows of the first data set from front to back, then those of the
//   second, and so on: rows_per_epoch rows have every token once. Weights do not matter, except
//   that a data set of weight 0 has no rows.
#pragma once
#include "base/json.h"
#include "base/rng.h"
#include "data/set/dataset.h"

typedef struct row_source_spec {
    const char *prefix;
    double weight;
} row_source_spec;

typedef enum rows_packing {
    PACKING_AUTO,      // PACKING_EXAMPLES for a data set that has roles, else PACKING_DOCUMENTS
    PACKING_DOCUMENTS, // cut every T tokens; attention and positions stay inside a document
    PACKING_STREAM,    // cut every T tokens; attention and positions cross the borders of documents
    PACKING_EXAMPLES,  // whole documents; one that is longer than a row is truncated or left out
    PACKING_PAIRS,     // whole preference pairs, two documents each (pair_rows.h)
    N_PACKINGS
} rows_packing;

// The labels that have a loss. data/sft/sft.h defines the roles.
typedef enum rows_loss {
    LOSS_AUTO,      // LOSS_RESPONSES for a data set that has roles, else LOSS_ALL
    LOSS_RESPONSES, // answers
    LOSS_LAST,      // the last answer of a document
    LOSS_ALL,
    N_ROWS_LOSSES
} rows_loss;

typedef enum rows_part { PART_TRAIN, PART_VALID, PART_TEST, N_PARTS } rows_part;

typedef struct rows_opts {
    const row_source_spec *sources;
    int n_sources;
    int64_t row_tokens, n_vocab;
    uint64_t seed;
    bool shuffle;
    rows_packing packing;
    rows_loss loss;
    bool drop_long; // leave out examples that do not fit in a row, instead of truncating them
    // Above 0: rows are windows with this stride (piece_windows) over each document, or over the
    // whole part if it is a stream, so that each token has as much context as fits in a row. Only
    // for evaluation in order.
    int64_t stride;
    // Shares of the parts, as in data.split; all 0: no split, and `part` is ignored. A data set is
    // split between documents. If that leaves training or validation without a row (one file that
    // is one document), it is split between tokens.
    double split[N_PARTS];
    rows_part part;
} rows_opts;

// The arrays that receive a row, row_tokens elements each.
typedef struct row_out {
    int32_t *tokens;
    int32_t *position; // in the document, or in the row
    int32_t *labels;   // the next token; -1: no loss
    // Three arrays for rows of pairs; NULL: not wanted. `pair` has the role of each token in the
    // pairs of the row (ir/pair_word.h), which are numbered from 0. `reference`, [2 row_tokens],
    // has the reference's log-probability at the first token of each response, a double in two
    // words. `hidden`, [2 row_tokens], has for each token the begin and the end of the range that
    // it does not attend to (pair_rows.h).
    int32_t *pair, *reference, *hidden;
    int64_t *number; // [row_tokens / 2] the index of each of these pairs among all (rows_n_pairs)
    int64_t *counted, *pairs; // incremented by the labels with a loss, and by the pairs
} row_out;

// The position of one data set, independent of the others.
typedef struct row_count {
    int64_t taken;   // rows taken, over all epochs
    int64_t blended; // of these, since the present blend began
} row_count;

// The rows of one data set, and the range of tokens that they are made of.
typedef struct row_cut {
    double weight; // the sum over all data sets is 1; 0: no rows
    int64_t n;     // rows of an epoch
    int64_t row_tokens;
    int64_t begin, end; // range of tokens in the data set
} row_cut;

typedef struct rows rows; // single owner

// Opens all data sets; the rows live in `a`, the files stay open until rows_close. DRV_E_IO: a
// file cannot be read. DRV_E_DATA: a data set is broken, or has no label in this part. DRV_E_USAGE:
// `loss` asks for answers and a data set has no roles, or the sum of the weights is 0.
DRV_CHECKED drv_status rows_open(arena *a, const rows_opts *opts, rows **out);
void rows_close(rows *stream);
int64_t rows_per_epoch(const rows *stream); // of all sources together
// Return the number of tokens in the longest piece that was packed into rows (a window or an
// example), and in all pieces; 0 if documents are cut every T tokens.
int64_t rows_longest(const rows *stream);
int64_t rows_packed_tokens(const rows *stream);
// Returns the largest number of documents in a row; 0: not known.
int64_t rows_most_documents(const rows *stream);
int64_t rows_taken(const rows *stream);
// Seeks to the position after `taken` rows, in constant time except for shuffled blends, which need
// `taken` additions.
void rows_seek(rows *stream, int64_t taken);

// Returns the position of each data set, [rows_n_sources].
void rows_counts(const rows *stream, row_count *out);
// Seeks each data set to its own position. `taken` is the number of rows that the run has taken,
// perhaps from other data sets. The blend continues, or begins anew if all `blended` are 0.
void rows_go_to(rows *stream, int64_t taken, const row_count *of);
// Computes how many of the first `n` rows of a blend come from each of n_sets data sets.
void rows_blend(const double *weights, int n_sets, int64_t n, int64_t *out);

// Skips n rows without reading them, as rows_seek would, in at most n additions.
void rows_skip(rows *stream, int64_t n);

// Reads the next row.
DRV_CHECKED drv_status rows_next(rows *stream, const row_out *out);
// Returns the number of pairs in all data sets, other parts included. Pairs are numbered across
// data sets in their order.
int64_t rows_n_pairs(const rows *stream);
// Set and return the reference's log-probabilities of the chosen and the rejected response of each
// pair, [2 rows_n_pairs], which later rows will contain; NULL: 0. The stream does not own them.
void rows_set_references(rows *stream, const double *values);
const double *rows_references(const rows *stream);
// Returns to the first row, as if the stream had been opened with this `shuffle`.
void rows_begin(rows *stream, bool shuffle);
// Returns the name of the last row returned by rows_next, for messages: "PREFIX row 12 of epoch 0".
const char *rows_last(const rows *stream);

int rows_n_sources(const rows *stream);
int64_t rows_n_vocab(const rows *stream);
const dataset *rows_source(const rows *stream, int i);
row_cut rows_cut(const rows *stream, int i);

// Returns everything that determines the order of rows, which a run records and a resume compares
// (docs/formats.md): for each source prefix, tokens, documents, idx_xxh3 (of the .idx),
// tokenizer_xxh3 (null: not known), roles_xxh3 (null: none), packing, loss, long, weight (of a sum
// of 1) and split_by; then part, split (shares of a sum of 1, or null), row_tokens, shuffle, seed.
// The caller owns it.
json_t *rows_fingerprint(const rows *stream);
