// Products of bf16 by tile registers (tiles.h). Operands are packed block by block of the inner
// dimension (tile_pack.h). A pass keeps the sums of a pair of strips by another in four registers.
// Legend: c = a b; g counts groups of 32 elements.
//
//              k of one block                    a pair of strips of b
//            +---+---+---+---+                   +---+---+
//     16     | a |   |   |   |                   | b | b |  g = 0        +---+---+
//     rows   +---+---+---+---+        x          +---+---+        =      | 0 | 1 |  registers
//            | a |   |   |   |                   |   |   |  1            +---+---+  of sums
//            +---+---+---+---+                   +---+---+               | 2 | 3 |
//            g = 0  1   2   3                     ...                    +---+---+
//
// The registers multiply for 64 cycles per group, during which other work is free: each group of a
// pass also does some chores. They store the sums of the previous pass and prefetch the memory that
// is packed or accumulated next. Packing itself is not a chore, since it would evict the strips of
// b from the first-level cache.
//
// A sum is one chain of groups, from the first element of k on, each added as tile_dot does. The
// chain continues from block to block, so that neither blocks nor the division of a product change
// a bit. At the end the sum is scaled, added to c, and rounded.
//
// Scratch (gemm_scratch_bytes): one block of all rows of a; WIDE columns of b; sums of two passes,
// used alternately; sums between blocks, pass by pass; the widened part of an operand b in blocks
// of quantised numbers (widen.h).
#pragma once
#include "kernels/levels/gemm_blocks.h"
#include "kernels/levels/tile_pack.h"
#include "kernels/tile_kernels.h"

// Results of this many bytes or more are written past the caches if b is stored [n, k], as weights
// are in a forward pass: such results are probably kept for the backward pass, in memory that no
// cache holds. Other results go to memory that was used recently. Columns that lie across the rows
// of b are packed WIDE at a time: runs of 256 bytes come from memory three times as fast as of 64.
enum { PASS_SUMS = PAIR * PAIR, BYTES_PAST_CACHES = 1 << 19, WIDE = 4 * PAIR };

// --- a block of the inner dimension
typedef struct tiles_job {
    const gemm_shape *shape;
    const uint16_t *a, *b; // b: from the block of k on, where rows are ldb elements apart
    int64_t ldb;
    void *c;
    uint32_t *packed_a, *packed_b;
    float *ends[2], *between; // sums of the pass and of the one before; those between blocks
    int64_t k0, k, n_groups;  // of the block
    bool begun, last;         // an earlier block exists; this is the last one
    bool past_caches;         // c is written past the caches
} tiles_job;

static int64_t at_most(int64_t n, int64_t most) {
    return n < most ? n : most;
}

static strip_source rows_of_a(const tiles_job *job) {
    const gemm_shape *s = job->shape;
    return (strip_source){job->a + job->k0 * (s->ta ? s->lda : 1), s->lda, !s->ta, true};
}

static strip_source columns_of_b(const tiles_job *job, int64_t j) {
    const gemm_shape *s = job->shape;
    return (strip_source){job->b + (s->tb ? j * job->ldb : j), job->ldb, s->tb, false};
}

// --- chores
// Sums of a pass, rows of PAIR, of which `done` are where they belong: in c.
typedef struct ended_pass {
    const float *sums;
    int64_t row, column, n_rows, n_columns, done;
} ended_pass;

// out, adds and past_caches are constants.
INLINE void put_rows(const dtype out, const bool adds, const bool past_caches, const gemm_shape *s,
        void *c, const ended_pass *ended, int64_t n_rows) {
    const vec scale = v_set((float)gemm_scale(s));
    const float *from = ended->sums + ended->done * PAIR;
    int64_t at = (ended->row + ended->done) * s->ldc + ended->column;
    for (int64_t i = 0; i < n_rows; i++, at += s->ldc, from += PAIR)
        FOR_VECTORS(j, k, ended->n_columns, {
            const vec sum = v_mul(v_load(from + j, k), scale);
            if (past_caches && k == WIDTH)
                v_store_past_caches(out, c, at + j, sum);
            else
                v_store_as(out, c, at + j, adds ? v_add(v_load_as(out, c, at + j, k), sum) : sum,
                        k);
        });
}

// Brings up to n rows to c: scaled, added and rounded.
static void put_some(const tiles_job *job, ended_pass *ended, int64_t most) {
    const gemm_shape *s = job->shape;
    const int64_t n = at_most(most, ended->n_rows - ended->done);
    if (n <= 0) return;
    if (s->out == DT_BF16 && s->accumulate)
        put_rows(DT_BF16, true, false, s, job->c, ended, n);
    else if (s->out == DT_BF16 && job->past_caches)
        put_rows(DT_BF16, false, true, s, job->c, ended, n);
    else if (s->out == DT_BF16)
        put_rows(DT_BF16, false, false, s, job->c, ended, n);
    else if (s->accumulate)
        put_rows(DT_F32, true, false, s, job->c, ended, n);
    else if (job->past_caches)
        put_rows(DT_F32, false, true, s, job->c, ended, n);
    else
        put_rows(DT_F32, false, false, s, job->c, ended, n);
    ended->done += n;
}

// Row by row, over n_steps groups of passes.
static lines lines_over(const void *from, int64_t row_bytes, int64_t bytes, int64_t n_rows,
        int64_t n_steps) {
    if (n_steps == 0 || n_rows <= 0 || bytes <= 0) return (lines){0};
    return (lines){.row = from,
            .next = from,
            .row_bytes = row_bytes,
            .bytes = bytes,
            .n_rows = n_rows,
            .per_step = div_up(n_rows * (bytes / 64 + 1), n_steps)};
}

// Finds n columns of b, which the passes over the previous n columns prefetch.
static lines lines_of_columns(const tiles_job *job, int64_t j, int64_t n) {
    const gemm_shape *s = job->shape;
    const int64_t there = at_most(s->n - j, n);
    return lines_over(columns_of_b(job, j).p, 2 * job->ldb, 2 * (s->tb ? job->k : there),
            s->tb ? there : job->k, div_up(s->m, PAIR) * (n / PAIR) * job->n_groups);
}

// Finds the part of c to which the sums of a pass will be added.
static lines lines_of_c(const tiles_job *job, int64_t row, int64_t column) {
    const gemm_shape *s = job->shape;
    const int64_t unit = dtype_bytes(s->out);
    if (!job->last || !s->accumulate) return (lines){0};
    return lines_over((const char *)job->c + (row * s->ldc + column) * unit, s->ldc * unit,
            at_most(s->n - column, PAIR) * unit, at_most(s->m - row, PAIR), job->n_groups);
}

typedef struct chores {
    lines columns, sums;
    ended_pass ended;
    int64_t rows_each; // of ended, for each group
} chores;

INLINE void do_some(const tiles_job *job, chores *c) {
    fetch_some(true, &c->columns);
    fetch_some(true, &c->sums);
    put_some(job, &c->ended, c->rows_each);
}

// --- passes
INLINE void tile_pass(const tiles_job *job, const uint32_t *a, const uint32_t *b, float *between,
        chores *overlapped) {
    const int64_t line = 4 * TILE_SIDE;
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++)
        if (job->begun)
            tile_load(SUMS_TILE + t, between + t * TILE_WORDS, line);
        else
            tile_zero(SUMS_TILE + t);
    for (int64_t g = 0; g < job->n_groups; g++, a += PAIR_WORDS, b += PAIR_WORDS) {
        tile_load(COLUMNS_TILE, b, line);
        tile_load_once(ROWS_TILE, a, line);
        tile_dot(0, 0);
        tile_load(COLUMNS_TILE + 1, b + TILE_WORDS, line);
        tile_dot(0, 1);
        tile_load_once(ROWS_TILE + 1, a + TILE_WORDS, line);
        tile_dot(1, 0);
        tile_dot(1, 1);
        do_some(job, overlapped);
    }
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++)
        if (job->last)
            tile_store(SUMS_TILE + t, job->ends[0] + t / 2 * TILE_SIDE * PAIR + t % 2 * TILE_SIDE,
                    4 * PAIR);
        else
            tile_store(SUMS_TILE + t, between + t * TILE_WORDS, line);
}

static void run_pass(tiles_job *job, int64_t i, int64_t j, const uint32_t *b, float *between,
        chores *overlapped) {
    const gemm_shape *s = job->shape;
    overlapped->sums = lines_of_c(job, i, j);
    tile_pass(job, job->packed_a + i / PAIR * job->n_groups * PAIR_WORDS, b, between, overlapped);
    put_some(job, &overlapped->ended, PAIR);
    if (!job->last) return;
    float *ended = job->ends[0];
    overlapped->ended = (ended_pass){.sums = ended,
            .row = i,
            .column = j,
            .n_rows = at_most(s->m - i, PAIR),
            .n_columns = at_most(s->n - j, PAIR)};
    job->ends[0] = job->ends[1];
    job->ends[1] = ended;
}

static void run_block(tiles_job *job) {
    const gemm_shape *s = job->shape;
    chores overlapped = {.rows_each = job->n_groups ? div_up(PAIR, job->n_groups) : PAIR};
    float *between = job->between;
    const int64_t wide = s->tb ? PAIR : WIDE;
    const strip_source rows = rows_of_a(job);
    pack_pairs(&rows, s->m, job->k, job->packed_a);
    for (int64_t j = 0; j < s->n; j += PAIR) {
        if (j % wide == 0) {
            const strip_source columns = columns_of_b(job, j);
            pack_pairs(&columns, at_most(s->n - j, wide), job->k, job->packed_b);
            overlapped.columns = lines_of_columns(job, j + wide, wide);
        }
        const uint32_t *b = job->packed_b + j % wide / PAIR * job->n_groups * PAIR_WORDS;
        for (int64_t i = 0; i < s->m; i += PAIR, between += PASS_SUMS)
            run_pass(job, i, j, b, between, &overlapped);
    }
    put_some(job, &overlapped.ended, PAIR);
}

// Sets the address of the job's block of k of b: in b itself or, if b is in quantised blocks, in
// the widened copy.
static void block_of_b(tiles_job *job, const void *b, void *widened) {
    const gemm_shape *s = job->shape;
    const widened_b plain = {(const uint16_t *)b + (s->tb ? job->k0 : job->k0 * s->ldb), s->ldb},
                    from = s->blocks ? widen_b(DT_BF16, s, b, job->k0, job->k, widened) : plain;
    job->b = from.p;
    job->ldb = from.ld;
}

static void gemm_by_tiles(const gemm_shape *shape, const void *a, const void *b, void *c,
        void *scratch) {
    if (shape->m == 0 || shape->n == 0) return;
    const int64_t groups = div_up(shape->k, TILE_GROUP), unit = dtype_bytes(shape->out),
                  n_blocks = groups ? div_up(groups, GEMM_GROUPS) : 1,
                  block_groups = div_up(groups, n_blocks), n_pairs = div_up(shape->m, PAIR);
    tiles_job job = {.shape = shape, .a = a, .c = c, .packed_a = scratch};
    job.packed_b = job.packed_a + n_pairs * block_groups * PAIR_WORDS;
    job.ends[0] = (float *)(void *)(job.packed_b + WIDE / PAIR * block_groups * PAIR_WORDS);
    job.ends[1] = job.ends[0] + PASS_SUMS;
    job.between = job.ends[1] + PASS_SUMS;
    float *widened =
            job.between + (n_blocks > 1 ? n_pairs * div_up(shape->n, PAIR) * PASS_SUMS : 0);
    job.past_caches = shape->tb && !shape->accumulate &&
                      shape->m * shape->n * unit >= BYTES_PAST_CACHES &&
                      ((uintptr_t)c | (uintptr_t)(shape->ldc * unit)) % 64 == 0;
    tiles_begin();
    do { // once if k is 0, too
        job.k = at_most(shape->k - job.k0, block_groups * TILE_GROUP);
        job.n_groups = div_up(job.k, TILE_GROUP);
        job.last = job.k0 + job.k == shape->k;
        block_of_b(&job, b, widened);
        run_block(&job);
        job.k0 += job.k;
        job.begun = true;
    } while (!job.last);
    tiles_end();
    if (job.past_caches) v_past_caches_done();
}
