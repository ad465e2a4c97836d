// Chooses the table of a level; computes how attention and products are divided and how much
// scratch they need.
#include "kernels/kernels.h"

#include "base/round.h"
#include "kernels/tile_kernels.h"

const kernels *kernels_for(cpu_level level) {
#ifdef DROVER_X86
    static const kernels *const tables[] = {&kernels_ref, &kernels_plain, &kernels_avx2,
            &kernels_avx512, &kernels_avx512_bf16};
    return tables[level];
#else
    return level == CPU_REF ? &kernels_ref : &kernels_plain;
#endif
}

const tile_kernels *tiles_by_instructions(void) {
#ifdef DROVER_X86
    return &tiles_amx;
#else
    return &tiles_amx_emulated;
#endif
}

int64_t attention_units(const attention_args *args) {
    return args->n_kv_heads * div_up(args->seq, ATTENTION_BLOCK);
}

// Returns the words of a block of k for all columns, with the elements that are widened before and
// behind it.
static int64_t gemm_widened_words(const gemm_shape *shape, int64_t words) {
    if (!shape->blocks) return 0;
    return shape->tb ? shape->n * (words + 2 * WIDEN_UNIT) : words * (shape->n + 2 * WIDEN_UNIT);
}

// Returns the scratch of products without tiles, in words: a block of packed rows, a panel of 48
// columns, fp32 sums that are stored as bf16 or added to c at the end, and the part of b that is
// widened for a block of k.
static int64_t gemm_words(const gemm_shape *shape) {
    const int64_t words = shape->k < GEMM_WORDS ? shape->k : GEMM_WORDS,
                  rows = round_up(shape->m, 16);
    const bool aside = shape->out == DT_BF16 || (shape->accumulate && shape->k > GEMM_WORDS);
    return rows * (words + GEMM_PAD) + 48 * words + (aside ? shape->m * shape->n : 0) +
           gemm_widened_words(shape, words);
}

// Returns the scratch of products by tiles, in words, with rows and columns padded to 32: a block
// of packed rows and four pairs of strips of columns, the sums of two passes and of several blocks,
// and what is widened.
static int64_t gemm_tile_words(const gemm_shape *shape) {
    enum { SIDE = 32, GROUP = 32, GROUP_WORDS = 16 };
    const int64_t groups = div_up(shape->k, GROUP),
                  block = groups < GEMM_GROUPS ? groups : GEMM_GROUPS,
                  rows = round_up(shape->m, SIDE), columns = round_up(shape->n, SIDE);
    return (rows + 4 * SIDE) * block * GROUP_WORDS + 2 * SIDE * SIDE +
           (groups > GEMM_GROUPS ? rows * columns : 0) + gemm_widened_words(shape, block * GROUP);
}

int64_t gemm_scratch_bytes(const gemm_shape *shape) {
    const int64_t words = gemm_words(shape),
                  tiles = shape->in == DT_BF16 ? gemm_tile_words(shape) : 0;
    return 4 * (tiles > words ? tiles : words);
}

// Makes at least 16 units per sequence if chunks then have two blocks or more. Ranks that share the
// heads make the same chunks as one rank that has all heads.
int64_t attention_grad_chunks(const attention_args *args) {
    int64_t want = div_up(16, args->all_heads ? args->all_heads : args->n_heads),
            most = args->seq / (2 * ATTENTION_BLOCK);
    if (want > most) want = most;
    return want < 1 ? 1 : want;
}

int64_t attention_grad_units(const attention_args *args) {
    return args->n_heads * attention_grad_chunks(args);
}

int64_t attention_sum_units(const attention_args *args) {
    return div_up(args->seq, ATTENTION_BLOCK);
}

// Counts dq of each chunk, dk and dv for each query head, in f64 for f64.
int64_t attention_part_floats(const attention_args *args) {
    int64_t n = args->n_heads * args->seq * args->head_dim * (attention_grad_chunks(args) + 2);
    return args->dt == DT_F64 ? 2 * n : n;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// An upper bound for all levels: packed copies of one head's rows and a few blocks of scores; with
// tiles a run of packed keys and values (in the gradient also its sums) and three or four steps of
// scores.
int64_t attention_scratch_bytes(const attention_args *args) {
    int64_t d = (args->head_dim + 31) / 32 * 32, rep = args->n_heads / args->n_kv_heads,
            b = ATTENTION_BLOCK, run = ATTENTION_RUN * b;
    int64_t forward = rep * b * (2 * d + 32) + 2 * b * b + 3 * b * d;
    int64_t backward = b * 4 * d + run * 3 * d + 8 * b * b,
            by_tiles = b * (3 * d + 16) + run * 7 * d / 2 + 5 * b * b;
    forward = larger(forward, rep * b * (3 * d / 2 + 17) + 8 * b * d + 3 * b * b / 2);
    return (larger(forward, round_up(args->seq, b) + larger(backward, by_tiles))) * 4 + 4096;
}

// A chunk has 128 keys: with values, in heads of 64 bf16, 32 KiB, about a first-level cache. Chunks
// are larger where there would be more than 64 of them, so that joining them stays cheap.
enum { ROW_CHUNK = 128, MAX_ROW_CHUNKS = 64 };

int64_t row_attention_chunk(const attention_args *args) {
    return round_up(div_up(args->first + 1, MAX_ROW_CHUNKS), ROW_CHUNK);
}

static int64_t row_attention_chunks(const attention_args *args) {
    return div_up(args->first + 1, row_attention_chunk(args));
}

int64_t row_attention_units(const attention_args *args) {
    return args->n_kv_heads * row_attention_chunks(args);
}

// Counts for each head and chunk the largest score, the sum of exponentials, and the sums of the
// values. There may be fewer chunks of more keys.
int64_t row_attention_part_bytes(const attention_args *args) {
    const int64_t small = div_up(args->first + 1, ROW_CHUNK),
                  most = small < MAX_ROW_CHUNKS ? small : MAX_ROW_CHUNKS;
    return args->n_heads * most * (args->head_dim + 2) * dtype_bytes(dtype_acc(args->dt));
}

// Counts the scores of a chunk for all heads of a group.
int64_t row_attention_scratch_bytes(const attention_args *args) {
    return round_up(args->n_heads / args->n_kv_heads * row_attention_chunk(args) *
                            dtype_bytes(dtype_acc(args->dt)),
            64);
}
