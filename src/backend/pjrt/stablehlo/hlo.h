// Writes StableHLO: typed values, and a function for each operation that appends its line. The text
// is in MLIR's generic form, with operations and attributes that have not changed since
// StableHLO 1.0 and that plugins of 0.81 and 0.116 read alike (docs/adr/0013).
//
//   hlo_text h = {0};
//   hlo_value y = hlo_binary(&h, "add", hlo_convert(&h, x, HLO_F32), r);
//
// Wrong types or shapes are our bugs, and abort.
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
    const hlo_joined *joined; // its parts, if it is from hlo_join; else NULL
} hlo_value;

struct hlo_joined {
    int n;
    hlo_value of[HLO_MAX_JOINED];
};

typedef struct hlo_text {
    str s;
    int n_values; // ids given so far
    int n_lines;  // ended so far
    arena *a;     // of the parts of joined values
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
// The location at the end of an operation's line. Without one the parser records line and column,
// and XLA copies them to each instruction that it makes from the operation: a tenth of the memory
// in which a step of Llama-3.1-8B is compiled (bench/results/2026-11-23-pjrt.md).
#define HLO_NOWHERE " loc(unknown)"
void hlo_end_op(hlo_text *h);
// Append the beginning of an operation's line, %v3 = "stablehlo.op"(%v1, %v2), and its end, from
// " : (types of the operands) -> type of the result" on.
void hlo_begin(hlo_text *h, const char *op, const hlo_value *out, const hlo_value *in, int n);
void hlo_finish(hlo_text *h, const hlo_value *out, const hlo_value *in, int n);
void hlo_put_return(hlo_text *h, const char *op, const hlo_value *v, int n);
// Writes the region of two scalars joined by `op`, on the line of its operation.
void hlo_put_join(hlo_text *h, const char *op, hlo_type type);

// --- constants
hlo_value hlo_scalar(hlo_text *h, hlo_type type, double x);
hlo_value hlo_whole(hlo_text *h, hlo_type type, uint64_t x); // integers, all 64 bits
// Returns a value with the type and dims of `like` in which all elements are x.
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
hlo_value hlo_with(hlo_text *h, const char *op, hlo_value x, uint64_t word); // x op word, integers
hlo_value hlo_convert(hlo_text *h, hlo_value x, hlo_type type); // x itself if it has the type
hlo_value hlo_bitcast(hlo_text *h, hlo_value x,
        hlo_type type); // the same bits in a type of that size
hlo_value hlo_compare(hlo_text *h, const char *direction, hlo_value a, hlo_value b); // "LT", "EQ"
hlo_value hlo_select(hlo_text *h, hlo_value condition, hlo_value yes, hlo_value no);

// --- shapes
// Dim i of x becomes dim dims[i] of the result.
hlo_value hlo_broadcast(hlo_text *h, hlo_value x, int n_dims, const int64_t *dim,
        const int64_t *dims);
// Repeat a scalar, or a vector along a dim, to the dims of `like`.
hlo_value hlo_spread(hlo_text *h, hlo_value x, const hlo_value *like);
hlo_value hlo_along(hlo_text *h, hlo_value x, const hlo_value *like, int64_t dim);
hlo_value hlo_reshape(hlo_text *h, hlo_value x, int n_dims, const int64_t *dim);
// Dim i of the result is dim order[i] of x.
hlo_value hlo_transpose(hlo_text *h, hlo_value x, const int64_t *order);
// Returns the elements [first, first + n_taken) along one dim.
hlo_value hlo_slice(hlo_text *h, hlo_value x, int dim, int64_t first, int64_t n_taken);
hlo_value hlo_element(hlo_text *h, hlo_value vector, int64_t i); // a scalar
hlo_value hlo_concat(hlo_text *h, const hlo_value *x, int n, int dim);
// Concatenates matrices side by side and remembers them: slicing the columns of one gives that
// matrix, also behind a barrier. So nothing is copied if nobody reads the whole.
hlo_value hlo_join(hlo_text *h, const hlo_value *x, int n);
// Appends zeros along a dim, up to a length of n.
hlo_value hlo_pad(hlo_text *h, hlo_value x, int dim, int64_t n);

// --- sums and products
// "add" or "maximum" over some dims, which the result does not have.
hlo_value hlo_reduce(hlo_text *h, const char *op, hlo_value x, int n_dims, const int64_t *dims);
hlo_value hlo_reduce_all(hlo_text *h, const char *op, hlo_value x);
// Returns the product of matrices or, with three dims, of batches of matrices: contracts dim ca of
// a with dim cb of b, counted without the batch. Sums are in fp32 or wider, rounded to out_type.
hlo_value hlo_dot(hlo_text *h, hlo_value a, hlo_value b, int ca, int cb, hlo_type out_type);

// --- rows by number
hlo_value hlo_gather_rows(hlo_text *h, hlo_value table, hlo_value rows);
// Adds `added` to the rows with these indices; an index outside of the table is ignored. unique: no
// two indices in the table are equal.
hlo_value hlo_scatter_add_rows(hlo_text *h, hlo_value table, hlo_value rows, hlo_value added,
        bool unique);
hlo_value hlo_sort(hlo_text *h, hlo_value x); // a vector, in ascending order

// Returns x, which then does not exist before `after` does; a compiler does not replace it by an
// equal value from before.
hlo_value hlo_barrier(hlo_text *h, hlo_value x, hlo_value after);
// Returns zeros to replace x, which do not exist before `after` does. XLA would write a constant
// once for all values of a shape, and copy it.
hlo_value hlo_cleared(hlo_text *h, hlo_value x, hlo_value after);
// Makes each of n values exist only when all of them do.
void hlo_barrier_all(hlo_text *h, hlo_value *v, int n);

// Moves x to a memory: "device", or the part of the host's that a GPU reads directly.
#define HLO_MEMORY_OF_HOST "pinned_host"
hlo_value hlo_in_memory(hlo_text *h, hlo_value x, const char *memory);

// --- indices, which are constants or change in a loop
typedef struct hlo_index {
    bool moves;
    int64_t fixed;   // unless it moves
    hlo_value value; // if it moves: i32 scalar
} hlo_index;
hlo_index hlo_at(int64_t fixed);
hlo_index hlo_index_times(hlo_text *h, hlo_index p, int64_t factor);
hlo_value hlo_index_value(hlo_text *h, hlo_index p); // i32 scalar
// Take elements [first, first + n) along one dim, and put them back.
hlo_value hlo_take(hlo_text *h, hlo_value x, int dim, hlo_index first, int64_t n);
hlo_value hlo_put(hlo_text *h, hlo_value x, hlo_value part, int dim, hlo_index first);
// Returns element `index` of a constant table.
hlo_index hlo_index_of(hlo_text *h, const int64_t *table, int n, hlo_index index);

// Runs `body` n times; `carried` has the values that an iteration gets, and leaves for the next. Up
// to HLO_MAX_UNROLLED iterations are written one after the other, more are a loop.
typedef void hlo_body(hlo_text *h, void *ctx, hlo_index iteration, hlo_value *carried);
enum { HLO_MAX_UNROLLED = 3 };
void hlo_repeat(hlo_text *h, int n, hlo_value *carried, int n_carried, hlo_body *body, void *ctx);
// The same, but always a loop.
void hlo_loop(hlo_text *h, int n_iterations, hlo_value *carried, int n_carried, hlo_body *body,
        void *ctx);
