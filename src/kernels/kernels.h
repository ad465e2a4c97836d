// Arithmetic on pointers: one table of functions for each level of processor, chosen once.
// kernels_ref is the definition: scalar loops that compute in double. Kernels start no threads,
// allocate nothing and do not depend on graphs. Arrays of rows are dense and row-major.
//
// dt is the type of activations: f32, bf16 (or f64: ref only). `acc` arrays are of dtype_acc(dt):
// f32 for f32 and bf16. An output may be the same array as an input only where a comment says "in
// place". Lengths need not be multiples of anything, and pointers need no alignment.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "kernels/blocks/block_matrix.h"
#include "kernels/fp8.h"
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

// Parameters of dropout. The dropped elements of a row are a function of {seed, row, site,
// element}, independent of batching and recomputation. Random words come in groups: element e uses
// word e % GROUP / (GROUP / 4) of counter (site, e / GROUP, e % (GROUP / 4)).
enum { DROPOUT_GROUP = 64 };
typedef struct dropout_args {
    rng_key key;   // seed, RNG_DROPOUT, number of the row
    uint64_t site; // number of the input in the model, below 2^24
    double rate;   // dropout probability, in [0, 1)
} dropout_args;
static inline uint64_t dropout_block(const dropout_args *args, int64_t group) {
    return args->site << 40 | (uint64_t)group * (DROPOUT_GROUP / 4);
}
static inline uint32_t dropout_threshold(const dropout_args *args) {
    return (uint32_t)(args->rate * 0x1p32); // words below it drop
}

// Attention of one sequence of `seq` tokens. Rows of qkv hold n_heads queries, then n_kv_heads
// keys, then n_kv_heads values. If `keys` is given, the rows are tokens first .. first + seq - 1 of
// the sequence that begins with those keys: a cached sequence (generation), or another part of a
// row that several ranks share, where a token may not see any key.
typedef struct attention_args {
    dtype dt;
    int64_t seq;
    int n_heads, n_kv_heads, head_dim;
    int all_heads;           // query heads of the model, where ranks share them; 0: n_heads
    const void *qkv;         // [seq, (n_heads + 2 n_kv_heads) * head_dim], or queries alone
    const int32_t *position; // [seq] number of tokens directly before t that t attends to
    int64_t window;          // t attends to fewer than this many of them; 0: no limit
    // [seq][2]: half-open range of tokens that t does not see and position does not count; NULL:
    // none. Indices count from the beginning of the row, `hidden_from` tokens before the keys.
    const int32_t *hidden;
    int64_t hidden_from;
    void *o;       // [seq, n_heads * head_dim]; read by the gradient
    bool o_is_acc; // o of `attention` is of acc, of rows without a key 0, their lse -inf
    void *lse;     // acc, [n_heads, lse_stride]; this sequence's part. NULL: not wanted
    int64_t lse_stride;
    // NULL: the keys and values of qkv itself. Else [n_kv_heads, capacity, head_dim] each.
    const void *keys, *values;
    int64_t capacity, first; // tokens; first is 0 with the keys of qkv
    int64_t n_keys;          // number of keys; 0: first + seq
    // Row strides of qkv, and of o and d_o, in elements; 0: rows are contiguous.
    int64_t qkv_width, o_width;
    const void *d_o; // gradient of o
    // The number of equal reduction blocks of sums over the query heads of a group
    // (docs/adr/0018); 0: plain sums.
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
    double scale;    // 0 means 1
    // b is stored in quantised blocks: it is the part of this matrix that begins at `b`, which
    // points to the matrix; ldb is not read. Blocks of k are widened one after the other and
    // rounded to `in`, so that c has the bits of a product with a b that was widened beforehand.
    // NULL: b is stored as elements.
    const block_matrix *blocks;
    int64_t b_row, b_column;
} gemm_shape;
static inline double gemm_scale(const gemm_shape *shape) {
    return shape->scale != 0 ? shape->scale : 1;
}

// Squares of floats span 554 bits: the first sum covers 40 of these bits, each further one 41.
enum { SQUARES_MOST = 4096, SQUARES_SUMS = 14 };

typedef struct kernels {
    const char *name;
    // c = scale a b or c += scale a b; scratch of gemm_scratch_bytes().
    void (*gemm)(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch);
    // Widens columns [first, first + n) of a row of quantised blocks to fp32 or bf16 (block_widen,
    // then rounding). The range begins and ends at multiples of WIDEN_UNIT or at the row's end.
    void (*widen)(dtype dt, const quant_type *type, const void *row, int64_t first, int64_t n,
            void *out);
    // y = a + b; in place.
    void (*add)(dtype dt, int64_t n, const void *a, const void *b, void *y);
    // acc += x.
    void (*accumulate)(dtype dt, int64_t n, const void *x, void *acc);
    // y (dt) = x (acc), or x + c (dt), rounded once; c NULL: none; y may be c.
    void (*narrow)(dtype dt, int64_t n, const void *x, const void *c, void *y);
    // Returns the largest |x|; n > 0. Infinity or NaN if any x is.
    double (*magnitude)(dtype dt, int64_t n, const void *x);
    // y = x 2^scale rounded to the nearest number of the format (even in a tie), times 2^-scale; in
    // place. No |x| 2^scale exceeds the format's largest number.
    void (*round_fp8)(dtype dt, const fp8_format *to, int64_t n, int scale, const void *x, void *y);
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
    // Writes d_gate_up, which may be gate_up.
    void (*swiglu_grad)(dtype dt, int64_t rows, int64_t width, const void *dy, const void *gate_up,
            void *d_gate_up);
    // Overwrites a row of logits (acc, [n]) and returns -log softmax(logits)[label]. d (dt, [n],
    // may begin where logits begin; NULL: no gradient) = scale * (softmax(logits) - onehot(label)).
    double (*cross_entropy)(dtype dt, int64_t n, void *logits, int64_t label, double scale,
            void *d);
    // The two halves of cross_entropy, for a row whose columns are in reduction blocks or on
    // several ranks. exponents: x (acc) = exp(x - max), in place, where max is the largest x;
    // returns the sum.
    double (*exponents)(dtype dt, int64_t n, void *x, double *max);
    // y (dt) = factor x (acc), rounded once; y may begin where x begins, or before.
    void (*scaled)(dtype dt, int64_t n, const void *x, double factor, void *y);
    // y = x / (1 - rate), or 0 where it is dropped: n elements of a row from `first` on; y may be x.
    void (*dropout)(dtype dt, const dropout_args *args, int64_t first, int64_t n, const void *x,
            void *y);
    // Writes up to SQUARES_SUMS numbers whose exact sum is the sum of squares of at most
    // SQUARES_MOST numbers, and returns how many. For f64 it writes one, rounded. NaN or infinity
    // if any x is.
    int (*squares)(dtype dt, int64_t n, const void *x, double *parts);
    // Updates p, m, v and clears g (all acc); w (bf16, NULL: none) = p rounded. The whole change of
    // p, lr (m / c1) / (sqrt(v / c2) + eps) + lr weight_decay p, is summed before p is rounded once.
    void (*adamw)(dtype acc, int64_t n, void *p, void *m, void *v, void *g, const adamw_args *args,
            uint16_t *w);
    // The same in fp32 for p, m, v and g stored in other types. Values stored in bf16 are rounded
    // with random bits of the elements from by->first on: m with the lower half of the first word,
    // v with the upper half, p with the second word.
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
    // Every arithmetic rounds to dt the stored results and the operands of products: qkv, d_o, P =
    // exp(score - largest score in the blocks of ATTENTION_BLOCK keys so far) as a factor of V (with
    // tiles scaled down by a power of 2 of at most 256: tile_kernels.h), and P = exp(score - lse)
    // and dS as factors of d_o, Q and K. Scores, dP, their sums, the sum of P and delta (rows of
    // d_o o) are not rounded.
    // Forward: units 0 .. attention_units() - 1, each with its own scratch.
    void (*attention)(const attention_args *args, int64_t unit, void *scratch);
    // Gradient: first all units of part one, then all of part two.
    void (*attention_grad)(const attention_args *args, int64_t unit, void *scratch);
    void (*attention_grad_sum)(const attention_args *args, int64_t unit);
    // y_N = x_K W_NK^T for a single row x (generation).
    void (*row_times_matrix)(dtype dt, int64_t n, int64_t k, const void *x, const void *w, void *y);
    // Attention of a single row over the first + 1 tokens of its cache (generation), with P in acc:
    // units 0 .. row_attention_units() - 1, each with its own scratch, write to `part`; a final
    // call combines them.
    void (*row_attention)(const attention_args *args, int64_t unit, void *part, void *scratch);
    void (*row_attention_join)(const attention_args *args, const void *part);
} kernels;

extern const kernels kernels_ref, kernels_plain, kernels_avx2, kernels_avx512, kernels_avx512_bf16;

// Returns the table of a level; a level that this build lacks falls back to the next lower one.
const kernels *kernels_for(cpu_level level);

// Products pack at most GEMM_WORDS floats or pairs of bf16 of the inner dimension at a time, to fit
// the second-level cache; GEMM_PAD words between rows keep them off the same cache sets. Products
// by tiles (tile_kernels.h) pack at most GEMM_GROUPS groups of 32 elements: 32 columns of them are
// 36 KiB in a first-level cache of 48 KiB. The scratch suffices for all levels.
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

// Returns the first token that row t sees; negative: it lies before the keys. Hidden tokens lie
// within a window or before it.
static inline int64_t attention_first(const attention_args *args, int64_t t) {
    const int64_t all = args->position[t], token = args->first + t,
                  first = token - (args->window && all >= args->window ? args->window - 1 : all);
    const attention_span hidden = attention_hidden(args, t);
    return args->window && hidden.end <= first ? first : first - (hidden.end - hidden.begin);
}

// Returns a lower bound for the first token that row t or any later row sees: a later continuation
// may reach further back than the end of this one.
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

// Attention is cut into units by shape alone. A block is 64 query tokens of all heads of a group. A
// run is the blocks of keys that the gradient processes for one block of queries after the other; 4
// blocks with heads of 128 take 640 KiB with their sums. Bits do not depend on runs.
enum { ATTENTION_BLOCK = 64, ATTENTION_RUN = 4 };
int64_t attention_units(const attention_args *args);
int64_t attention_grad_chunks(const attention_args *args); // of keys, per head
int64_t attention_grad_units(const attention_args *args);  // n_heads x chunks
int64_t attention_sum_units(const attention_args *args);
int64_t attention_part_floats(const attention_args *args);
int64_t attention_scratch_bytes(const attention_args *args);

// Attention of a single row is cut into chunks of cached keys by their number alone; a unit is a
// chunk of a group of heads, and consecutive units read consecutive cache memory. Sizes grow with
// args->first.
int64_t row_attention_chunk(const attention_args *args); // keys
int64_t row_attention_units(const attention_args *args);
int64_t row_attention_part_bytes(const attention_args *args);
int64_t row_attention_scratch_bytes(const attention_args *args);
