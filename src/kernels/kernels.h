// Plain arithmetic on pointers: one table of functions per level of the processor, chosen once.
// kernels_ref is the definition: scalar loops that compute in double. No kernel has threads,
// allocates or knows a graph. Arrays of rows are dense and row-major.
//
// dt is the type of activations: f32, bf16 (or f64: ref only). `acc` arrays are of dtype_acc(dt):
// f32 for f32 and bf16. Outputs may be the same array as an input where "in place" is said. No
// alignment and no multiple is required of any length.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "kernels/blocks/block_matrix.h"
#include "base/cpu.h"
#include "base/dtype.h"
#include "base/rng.h"
#include "base/stochastic.h"

typedef struct rope_args {
    int head_dim;
    double theta, factor, low_freq_factor, high_freq_factor, original_context; // factor 0: none
} rope_args;
// Returns the frequency of pair j: the angle of position p is p times it, in rad.
double rope_frequency(const rope_args *args, int j);

typedef struct adamw_args {
    double lr, beta1, beta2, eps, weight_decay;
    double c1, c2;     // 1 - beta1^t, 1 - beta2^t
    double grad_scale; // from clipping
} adamw_args;
typedef struct adamw_types { // of the weight, of both moments, of the gradient: f32 or bf16
    dtype p, moments, g;
} adamw_types;
typedef struct momentum_args {
    double decay, grad_scale; // grad_scale: from clipping
    dtype g, to;              // of the gradient and of the direction
} momentum_args;

// The elements of a row of the data that are dropped are a function of {seed, row, site, element}:
// never of how rows are batched or when the value is made again. Random words come in groups: of
// element e it is word e % GROUP / (GROUP / 4) of counter (site, e / GROUP, e % (GROUP / 4)).
enum { DROPOUT_GROUP = 64 };
typedef struct dropout_args {
    rng_key key;   // seed, RNG_DROPOUT, number of the row
    uint64_t site; // where in the model, below 2^24
    double rate;   // share that is dropped, in [0, 1)
} dropout_args;
static inline uint64_t dropout_block(const dropout_args *args, int64_t group) {
    return args->site << 40 | (uint64_t)group * (DROPOUT_GROUP / 4);
}
static inline uint32_t dropout_threshold(const dropout_args *args) {
    return (uint32_t)(args->rate * 0x1p32); // words below it drop
}

// Attention of one sequence of `seq` tokens. qkv rows hold n_heads queries, then n_kv_heads keys,
// then n_kv_heads values. With keys of their own the rows are tokens first .. first + seq - 1 of
// what begins where those keys do: a longer sequence, all of which lies in a cache (generation), or
// another part of a row that several ranks share, of which a row may see no key at all.
typedef struct attention_args {
    dtype dt;
    int64_t seq;
    int n_heads, n_kv_heads, head_dim;
    int all_heads;           // query heads of the model, where ranks share them; 0: n_heads
    const void *qkv;         // [seq, (n_heads + 2 n_kv_heads) * head_dim], or queries alone
    const int32_t *position; // [seq] tokens before t that it sees: the last ones up to t
    int64_t window;          // of which there are fewer than this; 0: any number
    // [seq][2]: the tokens from the first to before the second, which lie among those and are not
    // seen nor counted by position; NULL: none. They are counted from where the keys begin less
    // `hidden_from`: from the beginning of the row, where keys are a part of it.
    const int32_t *hidden;
    int64_t hidden_from;
    void *o;       // [seq, n_heads * head_dim]; read by the gradient
    bool o_is_acc; // o of `attention` is of acc, of rows without a key 0, their lse -inf
    void *lse;     // acc, [n_heads, lse_stride]; this sequence's part. NULL: not wanted
    int64_t lse_stride;
    // NULL: the keys and values of qkv itself. Else [n_kv_heads, capacity, head_dim] each.
    const void *keys, *values;
    int64_t capacity, first; // tokens; first is 0 with the keys of qkv
    int64_t n_keys;          // that there are; 0: first + seq
    // Elements from one row of qkv, and of o and d_o, to the next; 0: there are no others between.
    int64_t qkv_width, o_width;
    const void *d_o; // gradient of o
    // Sums over the query heads of a group are of so many equal reduction blocks (docs/adr/0018);
    // 0: chains.
    int blocks;
    bool dqkv_is_acc;   // dqkv is of acc: a partial sum
    void *dqkv;         // like qkv; NULL: the gradient is added to these, of acc:
    void *dq, *dk, *dv; // [seq, n_heads or n_kv_heads * head_dim]
    float *part;        // scratch of the gradient, attention_part_floats() long
} attention_args;

// c [m,n] = scale a [m,k] b [k,n], sums in the accumulation type.
typedef struct gemm_shape {
    int64_t m, n, k;
    bool ta, tb;           // a is [k,m], b is [n,k]
    int64_t lda, ldb, ldc; // elements between rows as stored
    dtype in, out;
    bool accumulate; // c += scale a b: bf16 rounded once; fp32 as if a b had been stored first
    double scale;    // 0 says 1
    // b is held in blocks: it is the part of this matrix that begins there, and the pointer to it
    // is one to the matrix; ldb is not read. Values are widened block of k by block of k, rounded
    // to `in`, so that c has the bits of a product with a b that was widened before. NULL: plain.
    const block_matrix *blocks;
    int64_t b_row, b_column;
} gemm_shape;
static inline double gemm_scale(const gemm_shape *shape) {
    return shape->scale != 0 ? shape->scale : 1;
}

// Squares of floats reach over 554 bits: 40 of the first sum, 41 of each further one.
enum { SQUARES_MOST = 4096, SQUARES_SUMS = 14 };

typedef struct kernels {
    const char *name;
    // c = scale a b or c += scale a b; scratch of gemm_scratch_bytes().
    void (*gemm)(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch);
    // Widens columns [first, first + n) of a row that is held in blocks, as fp32 or bf16:
    // block_widen, then rounded. WIDEN_UNIT says which columns.
    void (*widen)(dtype dt, const quant_type *type, const void *row, int64_t first, int64_t n,
            void *out);
    // y = a + b; in place.
    void (*add)(dtype dt, int64_t n, const void *a, const void *b, void *y);
    // acc += x.
    void (*accumulate)(dtype dt, int64_t n, const void *x, void *acc);
    // y (dt) = x (acc), or x + c (dt), rounded once; c NULL: none; y may be c.
    void (*narrow)(dtype dt, int64_t n, const void *x, const void *c, void *y);
    // h = x + d (d NULL: h is x and not written), r = 1/sqrt(mean(h^2) + eps), y = h * r * w.
    void (*rmsnorm)(dtype dt, int64_t rows, int64_t width, const void *x, const void *d,
            const void *w, double eps, void *h, void *y, void *r);
    // See ir/ops/rmsnorm.c. dw (acc, [width]; NULL: not wanted) += the rows' part. dx in place of
    // dy or dh; dh may be NULL.
    void (*rmsnorm_grad)(dtype dt, int64_t rows, int64_t width, const void *dy, const void *x,
            const void *w, const void *r, const void *dh, void *dx, void *dw);
    // table rows: head_dim/2 cosines, then as many sines; acc type of dt.
    void (*rope_table)(dtype dt, const rope_args *args, int64_t n, const int32_t *position,
            void *table);
    // Rotates the first `n_heads` heads of rows of `width`; the rest is copied. In place.
    void (*rope)(dtype dt, int64_t rows, int64_t width, int n_heads, int head_dim, const void *x,
            const void *table, bool inverse, void *y);
    void (*swiglu)(dtype dt, int64_t rows, int64_t width, const void *gate_up, void *y);
    // Writes d_gate_up, which may lie in the place of gate_up.
    void (*swiglu_grad)(dtype dt, int64_t rows, int64_t width, const void *dy, const void *gate_up,
            void *d_gate_up);
    // Overwrites a row of logits (acc, [n]) and returns -log softmax(logits)[label]. d (dt, [n],
    // may begin where logits begin; NULL: no gradient) = scale * (softmax(logits) - onehot(label)).
    double (*cross_entropy)(dtype dt, int64_t n, void *logits, int64_t label, double scale,
            void *d);
    // The two halves of it, for a row whose columns are in reduction blocks or on several ranks:
    // x (acc) = exp(x - max), in place; max: the largest x; returns the sum.
    double (*exponents)(dtype dt, int64_t n, void *x, double *max);
    // y (dt) = factor x (acc), rounded once; y may begin where x begins, or before.
    void (*scaled)(dtype dt, int64_t n, const void *x, double factor, void *y);
    // y = x / (1 - rate), or 0 where it is dropped: n elements of a row from `first` on; in place.
    void (*dropout)(dtype dt, const dropout_args *args, int64_t first, int64_t n, const void *x,
            void *y);
    // Up to SQUARES_SUMS numbers that add up to the sum of squares without rounding, of at most
    // SQUARES_MOST numbers; how many. Of f64 one, rounded. NaN or infinity if any x is.
    int (*squares)(dtype dt, int64_t n, const void *x, double *parts);
    // Updates p, m, v and clears g (all acc); w (bf16, NULL: none) = p rounded. What is taken from
    // p, lr (m / c1) / (sqrt(v / c2) + eps) + lr weight_decay p, is summed before p is rounded,
    // once.
    void (*adamw)(dtype acc, int64_t n, void *p, void *m, void *v, void *g, const adamw_args *args,
            uint16_t *w);
    // The same in fp32 of what is kept in other types: p, m and v are rounded to theirs by random
    // bits of element by->first and those after it, in bf16: m by the lower half of the first word,
    // v by the upper one, p by the second word.
    void (*adamw_rounded)(const adamw_types *types, int64_t n, void *p, void *m, void *v, void *g,
            const adamw_args *args, const rounding *by, uint16_t *w);
    // sum (bf16) += x (f32), rounded by the first words. (ref: both f64, not rounded, where dt is.)
    void (*add_rounded)(dtype dt, int64_t n, const void *x, void *sum, const rounding *by);
    // m (acc) = decay m + (1 - decay) x with x = grad_scale g, which is cleared; u = decay m + (1 -
    // decay) x, rounded once.
    void (*momentum)(dtype acc, int64_t n, void *m, void *g, void *u, const momentum_args *args);
    // y (`to`) = factor x (dt) + z (acc; NULL: nothing), rounded once. y may be x where both have
    // one type.
    void (*combine)(dtype dt, dtype to, int64_t n, double factor, const void *x, const void *z,
            void *y);
    // p (acc) -= lr (o + weight_decay p), rounded once; w (bf16, NULL: none) = p rounded.
    void (*descend)(dtype acc, int64_t n, void *p, const void *o, double lr, double weight_decay,
            uint16_t *w);
    // These are rounded to dt, in every arithmetic: operands of products, that is qkv, d_o, and
    // P = exp(score - largest score of the blocks of ATTENTION_BLOCK keys so far) as it multiplies
    // V (by tiles a whole power of 2 at most 256 times smaller in its place: tile_kernels.h),
    // P = exp(score - lse) and dS as they multiply d_o, Q and K; and what is stored. Scores, dP,
    // their sums, the sum of P and delta (rows of d_o o) are not.
    // Forward: units 0 .. attention_units() - 1, each with its own scratch.
    void (*attention)(const attention_args *args, int64_t unit, void *scratch);
    // Gradient: first all units of part one, then all of part two.
    void (*attention_grad)(const attention_args *args, int64_t unit, void *scratch);
    void (*attention_grad_sum)(const attention_args *args, int64_t unit);
    // y_N = x_K W_NK^T for a single row x (generation).
    void (*row_times_matrix)(dtype dt, int64_t n, int64_t k, const void *x, const void *w, void *y);
    // The same as `attention` for a single row over the first + 1 tokens of its cache (generation),
    // P in acc: units 0 .. row_attention_units() - 1, each with its own scratch, write to `part`;
    // then one call joins them.
    void (*row_attention)(const attention_args *args, int64_t unit, void *part, void *scratch);
    void (*row_attention_join)(const attention_args *args, const void *part);
} kernels;

extern const kernels kernels_ref, kernels_plain, kernels_avx2, kernels_avx512, kernels_avx512_bf16;

// Returns the table for a level; levels that this build lacks fall back to the next lower one.
const kernels *kernels_for(cpu_level level);

// The inner dimension of a product is packed at most GEMM_WORDS floats or pairs of bf16 at a time
// (for the second-level cache), rows of them GEMM_PAD words apart (off the same cache sets); by
// tiles (tile_kernels.h) at most GEMM_GROUPS groups of 32 elements: 32 columns of them are 36 KiB,
// in a first-level cache of 48. Enough scratch for all levels.
enum { GEMM_WORDS = 768, GEMM_PAD = 16, GEMM_GROUPS = 18 };
int64_t gemm_scratch_bytes(const gemm_shape *shape);

typedef struct attention_span { // tokens begin .. end; no more than begin: none
    int64_t begin, end;
} attention_span;

static inline int64_t attention_keys(const attention_args *args) {
    return args->n_keys ? args->n_keys : args->first + args->seq;
}

// Returns the tokens that are hidden from row t.
static inline attention_span attention_hidden(const attention_args *args, int64_t t) {
    if (!args->hidden) return (attention_span){0, 0};
    return (attention_span){args->hidden[2 * t] - args->hidden_from,
            args->hidden[2 * t + 1] - args->hidden_from};
}

// Returns the first token that row t sees; below 0: one before the keys. What is hidden lies within
// a window or before it.
static inline int64_t attention_first(const attention_args *args, int64_t t) {
    const int64_t all = args->position[t], token = args->first + t,
                  first = token - (args->window && all >= args->window ? args->window - 1 : all);
    const attention_span hidden = attention_hidden(args, t);
    return args->window && hidden.end <= first ? first : first - (hidden.end - hidden.begin);
}

// Returns a token before which neither row t nor a later one sees any: of continuations that follow
// each other the next one may reach further back than the end of this one.
static inline int64_t attention_earliest(const attention_args *args, int64_t t) {
    const attention_span hidden = attention_hidden(args, t);
    if (!args->hidden || !args->window) return attention_first(args, t);
    return args->first + t - args->position[t] - (hidden.end - hidden.begin);
}

static inline int64_t attention_qkv_width(const attention_args *args) {
    return args->qkv_width ? args->qkv_width
                           : (int64_t)(args->n_heads + 2 * args->n_kv_heads) * args->head_dim;
}
static inline int64_t attention_o_width(const attention_args *args) {
    return args->o_width ? args->o_width : (int64_t)args->n_heads * args->head_dim;
}

// The cut of attention, which depends on the shape alone. Blocks: 64 query tokens of all heads of a
// group. Runs: blocks of keys that the gradient takes for one of queries after the other; 4, of
// heads of 128, are 640 KiB with their sums. Bits do not depend on them.
enum { ATTENTION_BLOCK = 64, ATTENTION_RUN = 4 };
int64_t attention_units(const attention_args *args);
int64_t attention_grad_chunks(const attention_args *args); // of keys, per head
int64_t attention_grad_units(const attention_args *args);  // n_heads x chunks
int64_t attention_sum_units(const attention_args *args);
int64_t attention_part_floats(const attention_args *args);
int64_t attention_scratch_bytes(const attention_args *args);

// The cut of the attention of a single row: chunks of cached keys, by their number alone; a unit is
// a chunk of a group of heads; units that follow each other read on in the cache. Sizes grow with
// args->first.
int64_t row_attention_chunk(const attention_args *args); // keys
int64_t row_attention_units(const attention_args *args);
int64_t row_attention_part_bytes(const attention_args *args);
int64_t row_attention_scratch_bytes(const attention_args *args);
