// Writing StableHLO: values with types, and a function per operation that appends its line. Text is
// in MLIR's generic form with operations and attributes that have not changed since StableHLO 1.0,
// which plugins of 0.81 and 0.116 read alike (docs/adr/0013).
//
//   hlo_text h = {0};
//   hlo_value y = hlo_binary(&h, "add", hlo_convert(&h, x, HLO_F32), r);
//
// Wrong types or shapes are our bug: abort.
// Legend: h the text; a, b, x values.
#pragma once
#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/str.h"

typedef enum hlo_type {
    HLO_F32,
    HLO_BF16,
    HLO_F64,
    HLO_I32,
    HLO_U32,
    HLO_U64,
    HLO_BOOL,
    HLO_F8E4M3,
    HLO_F8E5M2
} hlo_type;
enum { HLO_MAX_DIMS = 6, HLO_MAX_JOINED = 3 };

typedef struct hlo_joined hlo_joined;
typedef struct hlo_value { // copied freely
    int id;                // %vID
    int part;              // of an operation with several results; -1: it has one
    hlo_type type;
    int n_dims;
    int64_t dim[HLO_MAX_DIMS];
    const hlo_joined *joined; // what it was joined from (hlo_join); NULL: it was not
} hlo_value;

struct hlo_joined {
    int n;
    hlo_value of[HLO_MAX_JOINED];
};

typedef struct hlo_text {
    str s;
    int n_values; // ids given so far
    int n_lines;  // ended so far
    arena *a;     // for what joined values were joined from
} hlo_text;

#define HLO_DIMS(...)                                                                              \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) {                 \
        __VA_ARGS__                                                                                \
    }

int64_t hlo_elements(const hlo_value *v);

// Returns a value that the caller defines itself: an argument.
hlo_value hlo_new(hlo_text *h, hlo_type type, int n_dims, const int64_t *dim);
void hlo_put_type(hlo_text *h, const hlo_value *v);          // tensor<2x3xf32>
void hlo_put_value(hlo_text *h, const hlo_value *v);         // %v7 or %v7#1
void hlo_put_values(hlo_text *h, const hlo_value *v, int n); // with commas between
void hlo_put_types(hlo_text *h, const hlo_value *v, int n);
void hlo_put_list(hlo_text *h, int n, const int64_t *x); // array<i64: 1, 2>
void hlo_end_line(hlo_text *h);
// The end of an operation's line: it is from nowhere. Where none is given the parser notes line and
// column, and XLA copies them with each of the instructions that it makes of the operation: a tenth
// of the memory in which a step of Llama-3.1-8B is compiled (bench/results/2026-11-23-pjrt.md).
#define HLO_NOWHERE " loc(unknown)"
void hlo_end_op(hlo_text *h);
void hlo_put_return(hlo_text *h, const char *op, const hlo_value *v, int n);
// Writes the region of two scalars joined by `op`, on the line of its operation.
void hlo_put_join(hlo_text *h, const char *op, hlo_type type);

// --- constants
hlo_value hlo_scalar(hlo_text *h, hlo_type type, double x);
hlo_value hlo_whole(hlo_text *h, hlo_type type, uint64_t x); // integers, all 64 bits
// Fills a value like `like` with x, in its type.
hlo_value hlo_fill(hlo_text *h, double x, const hlo_value *like);
// Returns a vector of whole numbers.
hlo_value hlo_table(hlo_text *h, hlo_type type, int n, const int64_t *x);
// 0, 1, 2, ... along a dim.
hlo_value hlo_iota(hlo_text *h, hlo_type type, int n_dims, const int64_t *dim, int along);

// --- element by element; "negate", "exponential", "log", "rsqrt", "sqrt", "cosine", "logistic"
hlo_value hlo_unary(hlo_text *h, const char *op, hlo_value x);
// "add", "multiply", "maximum", "xor", ...: of one type and shape.
hlo_value hlo_binary(hlo_text *h, const char *op, hlo_value a, hlo_value b);
hlo_value hlo_scale(hlo_text *h, hlo_value x, double factor);
hlo_value hlo_convert(hlo_text *h, hlo_value x, hlo_type type); // x itself where it has the type
hlo_value hlo_bitcast(hlo_text *h, hlo_value x, hlo_type type); // the same bits, as many of them
hlo_value hlo_compare(hlo_text *h, const char *direction, hlo_value a, hlo_value b); // "LT", "EQ"
hlo_value hlo_select(hlo_text *h, hlo_value condition, hlo_value yes, hlo_value no);

// --- shapes
// Dim i of x becomes dim dims[i] of the result.
hlo_value hlo_broadcast(hlo_text *h, hlo_value x, int n_dims, const int64_t *dim,
        const int64_t *dims);
// Returns a scalar as large as `like`; a vector along dim `at` of it.
hlo_value hlo_spread(hlo_text *h, hlo_value x, const hlo_value *like);
hlo_value hlo_along(hlo_text *h, hlo_value x, const hlo_value *like, int64_t dim);
hlo_value hlo_reshape(hlo_text *h, hlo_value x, int n_dims, const int64_t *dim);
// Dim i of the result is dim order[i] of x.
hlo_value hlo_transpose(hlo_text *h, hlo_value x, const int64_t *order);
// Returns the elements [first, first + n_taken) along one dim.
hlo_value hlo_slice(hlo_text *h, hlo_value x, int dim, int64_t first, int64_t n_taken);
hlo_value hlo_element(hlo_text *h, hlo_value vector, int64_t i); // a scalar
hlo_value hlo_concat(hlo_text *h, const hlo_value *x, int n, int dim);
// Joins matrices side by side and remembers them: a slice of the columns of one is that matrix,
// also behind a barrier. So a compiler copies none where nobody reads the whole.
hlo_value hlo_join(hlo_text *h, const hlo_value *x, int n);
// Zeros after the last element of a dim, up to a length of n.
hlo_value hlo_pad(hlo_text *h, hlo_value x, int dim, int64_t n);

// --- sums and products
// "add" or "maximum" over some dims, which the result does not have.
hlo_value hlo_reduce(hlo_text *h, const char *op, hlo_value x, int n_dims, const int64_t *dims);
hlo_value hlo_reduce_all(hlo_text *h, const char *op, hlo_value x);
// Product of matrices, or of batches of them where there are three dims: contracts dim ca of a with
// dim cb of b (counted without the batch). Sums in fp32 or more, rounded to out_type.
hlo_value hlo_dot(hlo_text *h, hlo_value a, hlo_value b, int ca, int cb, hlo_type out_type);

// --- rows by number
hlo_value hlo_gather_rows(hlo_text *h, hlo_value table, hlo_value rows);
// Those outside add nothing. unique: no two inside are alike.
hlo_value hlo_scatter_add_rows(hlo_text *h, hlo_value table, hlo_value rows, hlo_value added,
        bool unique);
hlo_value hlo_sort(hlo_text *h, hlo_value x); // a vector, in ascending order

// x, not before `after` exists, and never taken for another computation of the same value.
hlo_value hlo_barrier(hlo_text *h, hlo_value x, hlo_value after);
// Zeros in the place of x, not before `after` exists. Constants XLA would write once for all values
// of a shape, and copy.
hlo_value hlo_cleared(hlo_text *h, hlo_value x, hlo_value after);
// Replaces each of n values by itself, not before all of them exist.
void hlo_barrier_all(hlo_text *h, hlo_value *v, int n);

// x in another memory of the device: "device", or the part of the host's that a GPU reads directly.
#define HLO_MEMORY_OF_HOST "pinned_host"
hlo_value hlo_in_memory(hlo_text *h, hlo_value x, const char *memory);

// --- places that a loop moves through
typedef struct hlo_index { // `fixed` is read where there is no value
    bool moves;
    int64_t fixed;
    hlo_value value; // i32 scalar
} hlo_index;
hlo_index hlo_at(int64_t fixed);
hlo_index hlo_index_times(hlo_text *h, hlo_index p, int64_t factor);
hlo_value hlo_index_value(hlo_text *h, hlo_index p); // i32 scalar
// Take elements [first, first + n) along one dim, and put them back.
hlo_value hlo_take(hlo_text *h, hlo_value x, int dim, hlo_index first, int64_t n);
hlo_value hlo_put(hlo_text *h, hlo_value x, hlo_value part, int dim, hlo_index first);
// Element `index` of a table of whole numbers, the numbers of which are known.
hlo_index hlo_index_of(hlo_text *h, const int64_t *table, int n, hlo_index index);

// Runs `body` n times, n known; `carried` holds what an iteration takes over and what it leaves.
// Few iterations are written out one after the other, more are a loop.
typedef void hlo_body(hlo_text *h, void *ctx, hlo_index iteration, hlo_value *carried);
enum { HLO_MAX_UNROLLED = 3 };
void hlo_repeat(hlo_text *h, int n, hlo_value *carried, int n_carried, hlo_body *body, void *ctx);
// Always a loop.
void hlo_loop(hlo_text *h, int n_iterations, hlo_value *carried, int n_carried, hlo_body *body,
        void *ctx);
