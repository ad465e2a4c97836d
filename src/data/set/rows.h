// Turns data sets into fixed rows of T tokens, in an order that is a function of the seed and of
// the number of rows taken: a resume reads nothing again, and the order is the same for any number
// of ranks.
//
// The documents of a part (training, validation, test) stand one after the other and are cut every
// T tokens, so no token is dropped; the last row is filled up with tokens that nobody predicts. Or
// whole examples are packed into rows (packed_rows.h), or windows over documents, in which each
// token has all the context that fits (rows_opts.stride).
// - shuffled (training): an epoch takes the rows of a data set in the order of a seeded
//   permutation. Blends take row i from the data set that is furthest behind its weight.
// - in order (evaluation): the rows of the first data set from front to back, then those of the
//   second, and so on: in rows_per_epoch rows every token once. Weights play no part, but that a
//   data set of weight 0 has no rows.
#pragma once
#include "base/json.h"
#include "base/rng.h"
#include "data/set/dataset.h"

typedef struct row_source_spec {
    const char *prefix;
    double weight;
} row_source_spec;

typedef enum rows_packing {
    PACKING_AUTO,      // examples of a set that has roles, else documents
    PACKING_DOCUMENTS, // cut every T tokens; attention and positions stay inside a document
    PACKING_STREAM,    // cut every T tokens; attention and positions run on across
    PACKING_EXAMPLES,  // whole documents; what is longer than a row is cut off or left out
    PACKING_PAIRS,     // whole preference pairs, two documents each (pair_rows.h)
    N_PACKINGS
} rows_packing;

// The labels that count. Roles are those of data/sft/sft.h.
typedef enum rows_loss {
    LOSS_AUTO,      // answers of a set that has roles, else all
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
    bool drop_long; // examples that do not fit a row are left out, not cut off at its end
    // More than 0: each token has all the context that it has in a row, by windows (piece_windows)
    // over each document, or over the whole part if it is a stream. For evaluation, in order.
    int64_t stride;
    // Shares of the parts, as data.split; all 0: there is one part and `part` is not looked at. A
    // data set is cut between documents; where that leaves training or validation without a row
    // (one file that is one document), it is cut between tokens.
    double split[N_PARTS];
    rows_part part;
} rows_opts;

// The arrays into which a row is laid out, row_tokens of each.
typedef struct row_out {
    int32_t *tokens, *position, *labels; // see rows_next
    // Three arrays for rows of pairs; NULL: they are not wanted. `pair` says what each token is to
    // the pairs of the row (ir/pair_word.h), which are numbered from 0; `reference` has the
    // reference's log-probability at the head of each response, a double in two words: [2
    // row_tokens]; `hidden` has for each token the two ends of what it does not see of the row
    // (pair_rows.h): likewise.
    int32_t *pair, *reference, *hidden;
    int64_t *number;          // [row_tokens / 2] of each of these pairs: see rows_n_pairs
    int64_t *counted, *pairs; // gain the labels that count, and the pairs
} row_out;

// The position of one data set, independent of the others.
typedef struct row_count {
    int64_t taken;   // rows of it, over all epochs
    int64_t blended; // of them, since the blend began in which they are taken now
} row_count;

// The rows and tokens that a count of rows stands for.
typedef struct row_cut {
    double weight; // of a sum of 1; 0: there are no rows of it
    int64_t n;     // rows of an epoch
    int64_t row_tokens;
    int64_t begin, end; // the tokens of the set that they are made of
} row_cut;

typedef struct rows rows; // single owner

// Opens all data sets; the rows live in `a`, the files stay open until rows_close. DRV_E_IO: a
// file cannot be read. DRV_E_DATA: a data set is broken, or has nothing to predict in this part.
// DRV_E_USAGE: answers are to count and a set has no roles, or the weights sum to nothing.
DRV_CHECKED drv_status rows_open(arena *a, const rows_opts *opts, rows **out);
void rows_close(rows *stream);
int64_t rows_per_epoch(const rows *stream); // of all sources together
// Count the tokens of the longest piece that was packed into rows (a window or an example), and of
// all pieces; 0 where documents are cut every T tokens.
int64_t rows_longest(const rows *stream);
int64_t rows_packed_tokens(const rows *stream);
// Counts the documents of the row that has most; 0: not known.
int64_t rows_most_documents(const rows *stream);
int64_t rows_taken(const rows *stream);
// Seeks to the position after `taken` rows, in constant time except for shuffled blends, which need
// `taken` additions.
void rows_seek(rows *stream, int64_t taken);

// Writes how far each data set has come, [rows_n_sources].
void rows_counts(const rows *stream, row_count *out);
// Seeks each data set to its own position, after `taken` rows of a run whose data sets may have
// changed. The blend continues, or begins if all `blended` are 0.
void rows_go_to(rows *stream, int64_t taken, const row_count *of);
// Counts how many of the first `n` rows of a blend each of n_sets data sets has.
void rows_blend(const double *weights, int n_sets, int64_t n, int64_t *out);

// Skips n rows without reading them, as rows_seek would, in at most n additions.
void rows_skip(rows *stream, int64_t n);

// Gives the next row: tokens[T], position[T] (from the start of the document, or of the row),
// labels[T] (the next token; -1 where there is none to predict). Adds to *counted the labels that
// count.
DRV_CHECKED drv_status rows_next(rows *stream, int32_t *tokens, int32_t *position, int32_t *labels,
        int64_t *counted);
// The same of rows of pairs, and what else they have.
DRV_CHECKED drv_status rows_next_pairs(rows *stream, const row_out *out);
// Counts the pairs of all data sets, whole, those of other parts too; they are numbered set after
// set.
int64_t rows_n_pairs(const rows *stream);
// Tell, or let the rows have, the reference's log-probabilities of the chosen and the rejected
// response of each, [2 rows_n_pairs], for the rows to come; NULL: they are 0. The stream does not
// own them.
void rows_set_references(rows *stream, const double *values);
const double *rows_references(const rows *stream);
// Starts over at the first row, as if opened with `shuffle`.
void rows_begin(rows *stream, bool shuffle);
// Names the row that rows_next returned last, for messages: "PREFIX row 12 of epoch 0".
const char *rows_last(const rows *stream);

int rows_n_sources(const rows *stream);
int64_t rows_n_vocab(const rows *stream);
const dataset *rows_source(const rows *stream, int i);
row_cut rows_cut(const rows *stream, int i);

// Describes all that decides which row comes when, to be recorded and compared at a resume
// (docs/formats.md): for each source prefix, tokens, documents, idx_xxh3 (of the .idx),
// tokenizer_xxh3 (null: not known), roles_xxh3 (null: none), packing, loss, long, weight (of a sum
// of 1) and split_by; then part, split (shares of a sum of 1, or null), row_tokens, shuffle, seed.
// The caller owns it.
json_t *rows_fingerprint(const rows *stream);
