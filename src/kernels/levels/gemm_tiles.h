// Products of bf16 by tile registers (tiles.h). Operands are packed block by block of the inner
// dimension as squares of 16 x 16 pair words (words.h), each what a register holds; a strip is the
// squares of 16 rows of a, or of 16 columns of b, one group of 32 elements after the other. A pass
// keeps the sums of two strips by two in four registers.
// Legend: c = a b; g counts groups.
//
//              k of one block                    two strips of b
//            +---+---+---+---+                   +---+---+
//     16     | a |   |   |   |                   | b | b |  g = 0        +---+---+
//     rows   +---+---+---+---+        x          +---+---+        =      | 0 | 1 |  registers
//            | a |   |   |   |                   |   |   |  1            +---+---+  of sums
//            +---+---+---+---+                   +---+---+               | 2 | 3 |
//            g = 0  1   2   3                     ...                    +---+---+
//
// A sum is one chain of groups, from the first element of k on, each added as tile_dot says: it
// goes on from block to block, so neither they nor how a product is cut change a bit. At the end it
// is scaled, added to c, and rounded.
//
// Scratch (gemm_scratch_bytes): one block of all rows of a; two strips of b; fp32 sums [m, n] of
// several blocks, where c cannot hold them; what is widened of a b that is held in blocks of
// quantised numbers (widen.h).
#pragma once
#include "kernels/tile_kernels.h"
#include "kernels/levels/gemm_blocks.h"
#include "kernels/levels/tiles.h"

// Two strips of b of so many groups, 40 KiB, leave some of a first-level cache of 48 KiB to what
// passes by.
enum { MOST_GROUPS = 20, PASS = 2 * TILE_SIDE };

// --- packing. A line is a row of a or a column of b. n of 16 lines exist, and k elements from here
// on; what does not is 0.

// Lines of storage: row i of the square has the words of line i.
static void square_along(const uint16_t *from, int64_t ld, int64_t n, int64_t k, uint32_t *square) {
    if (n >= TILE_SIDE && k >= TILE_GROUP) {
        for (int64_t i = 0; i < TILE_SIDE; i++)
            memcpy(square + i * TILE_SIDE, from + i * ld, 4 * TILE_SIDE);
        return;
    }
    memset(square, 0, sizeof *square * TILE_WORDS);
    for (int64_t i = 0; i < n && i < TILE_SIDE; i++)
        memcpy(square + i * TILE_SIDE, from + i * ld,
                sizeof *from * (size_t)(k < TILE_GROUP ? k : TILE_GROUP));
}

// Lines that run down the rows of storage: row w of the square has word w of each line.
static void square_across(const uint16_t *from, int64_t ld, int64_t n, int64_t k,
        uint32_t *square) {
    static const uint16_t none[TILE_SIDE];
    for (int64_t w = 0; w < TILE_SIDE; w++) {
        uint32_t *row = square + w * TILE_SIDE;
        const uint16_t *low = 2 * w < k ? from + 2 * w * ld : none,
                       *high = 2 * w + 1 < k ? from + (2 * w + 1) * ld : none;
        if (n >= TILE_SIDE) {
            for (int i = 0; i < TILE_SIDE; i++)
                row[i] = low[i] | (uint32_t)high[i] << 16;
        } else {
            memset(row, 0, 4 * TILE_SIDE);
            for (int64_t i = 0; i < n; i++)
                row[i] = low[i] | (uint32_t)high[i] << 16;
        }
    }
}

static void turn_square(const uint32_t *from, uint32_t *to) {
    for (int64_t i = 0; i < TILE_SIDE; i += TURN)
        for (int64_t j = 0; j < TILE_SIDE; j += TURN) {
            turn_row block[TURN];
            for (int r = 0; r < TURN; r++)
                block[r] = turn_load(from + (i + r) * TILE_SIDE + j);
            turn(block);
            for (int r = 0; r < TURN; r++)
                turn_store(to + (j + r) * TILE_SIDE + i, block[r]);
        }
}

// An operand from the element on where a strip begins. along: k runs along the rows of storage.
// by_line: row i of a square is line i, as of a; else row w is word w, as of b.
typedef struct strip_source {
    const uint16_t *p;
    int64_t ld;
    bool along, by_line;
} strip_source;

static void pack_strip(const strip_source *from, int64_t n, int64_t k, uint32_t *to) {
    const bool turns = from->along != from->by_line;
    uint32_t other[TILE_WORDS];
    for (int64_t k0 = 0; k0 < k; k0 += TILE_GROUP, to += TILE_WORDS) {
        uint32_t *square = turns ? other : to;
        if (from->along)
            square_along(from->p + k0, from->ld, n, k - k0, square);
        else
            square_across(from->p + k0 * from->ld, from->ld, n, k - k0, square);
        if (turns) turn_square(other, to);
    }
}

// --- a block of the inner dimension
typedef struct tiles_job {
    const gemm_shape *shape;
    const uint16_t *a, *b; // b: from the block of k on, where rows are ldb elements apart
    int64_t ldb;
    void *c;
    uint32_t *packed_a, *panel;
    sums between;            // blocks: c itself, or aside; of one block that c cannot hold NULL
    int64_t k0, k, n_groups; // of the block
    bool begun, last;        // it goes on from an earlier one; there is none after it
} tiles_job;

static strip_source rows_of_a(const tiles_job *job, int64_t i) {
    const gemm_shape *s = job->shape;
    return (strip_source){job->a + (s->ta ? job->k0 * s->lda + i : i * s->lda + job->k0), s->lda,
            !s->ta, true};
}

static strip_source columns_of_b(const tiles_job *job, int64_t j) {
    const gemm_shape *s = job->shape;
    return (strip_source){job->b + (s->tb ? j * job->ldb : j), job->ldb, s->tb, false};
}

static int64_t at_most(int64_t n, int64_t most) {
    return n < most ? n : most;
}

// Returns the lines from which the next panel is packed; the passes over this one fetch them.
static lines lines_of_next(const tiles_job *job, int64_t j) {
    const gemm_shape *s = job->shape;
    const int64_t n = at_most(s->n - j, PASS), steps = div_up(s->m, PASS) * job->n_groups;
    if (n <= 0 || steps == 0) return (lines){0};
    lines l = {.row = (const char *)columns_of_b(job, j).p,
            .row_bytes = 2 * job->ldb,
            .bytes = 2 * (s->tb ? job->k : n),
            .n_rows = s->tb ? n : job->k};
    l.next = l.row;
    l.per_step = div_up(l.n_rows * (l.bytes / 64 + 1), steps);
    return l;
}

// Finds where the sums of a pass begin, or else end, fetched by the pass before it.
static lines lines_of_sums(const tiles_job *job, int64_t row, int64_t column) {
    const gemm_shape *s = job->shape;
    const bool ends = job->last && !job->begun;
    const int64_t n_rows = at_most(s->m - row, PASS),
                  unit = ends ? dtype_bytes(s->out) : (int64_t)sizeof(float),
                  ld = ends ? s->ldc : job->between.ld;
    const char *from = ends ? job->c : (const char *)job->between.p;
    if (n_rows <= 0 || job->n_groups == 0) return (lines){0};
    lines l = {.row = from + (row * ld + column) * unit,
            .row_bytes = ld * unit,
            .bytes = at_most(s->n - column, PASS) * unit,
            .n_rows = n_rows};
    l.next = l.row;
    l.per_step = div_up(n_rows * (l.bytes / 64 + 1), job->n_groups);
    return l;
}

// rows x columns strips (constants), whose sums end in `to`, and begin there if that is begun.
INLINE void tile_pass(const int rows, const int columns, const tiles_job *job, const uint32_t *a,
        sums to, lines ahead[2]) {
    const int64_t strip = job->n_groups * TILE_WORDS, line = 4 * TILE_SIDE;
    const uint32_t *b = job->panel;
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < columns; j++) {
            if (job->begun)
                tile_load(SUMS_TILE + 2 * i + j, to.p + TILE_SIDE * (i * to.ld + j), 4 * to.ld);
            else
                tile_zero(SUMS_TILE + 2 * i + j);
        }
    for (int64_t at = 0; at < strip; at += TILE_WORDS) {
#pragma GCC unroll 2
        for (int j = 0; j < columns; j++)
            tile_load(COLUMNS_TILE + j, b + j * strip + at, line);
#pragma GCC unroll 2
        for (int i = 0; i < rows; i++) {
            tile_load(ROWS_TILE + i, a + i * strip + at, line);
#pragma GCC unroll 2
            for (int j = 0; j < columns; j++)
                tile_dot(i, j);
        }
        fetch_some(&ahead[0]);
        fetch_some(&ahead[1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < columns; j++)
            tile_store(SUMS_TILE + 2 * i + j, to.p + TILE_SIDE * (i * to.ld + j), 4 * to.ld);
}

static void pass_of(int64_t n_rows, int64_t n_columns, const tiles_job *job, const uint32_t *a,
        sums to, lines ahead[2]) {
    if (n_rows > TILE_SIDE && n_columns > TILE_SIDE)
        tile_pass(2, 2, job, a, to, ahead);
    else if (n_rows > TILE_SIDE)
        tile_pass(2, 1, job, a, to, ahead);
    else if (n_columns > TILE_SIDE)
        tile_pass(1, 2, job, a, to, ahead);
    else
        tile_pass(1, 1, job, a, to, ahead);
}

// Rows of sums, PASS apart, to where the row and column say: between blocks as they are, at the end
// scaled, added and rounded.
static void put_sums(const tiles_job *job, int64_t row, int64_t column, int64_t n_rows,
        int64_t n_columns, const float *whole) {
    const gemm_shape *s = job->shape;
    const vec scale = v_set((float)gemm_scale(s));
    for (int64_t i = 0; i < n_rows; i++) {
        const float *from = whole + i * PASS;
        const int64_t at = (row + i) * s->ldc + column;
        if (!job->last)
            memcpy(job->between.p + (row + i) * job->between.ld + column, from,
                    sizeof *from * (size_t)n_columns);
        else if (s->accumulate)
            FOR_VECTORS(j, k, n_columns, {
                const vec sum = v_mul(v_load(from + j, k), scale);
                v_store_as(s->out, job->c, at + j, v_add(v_load_as(s->out, job->c, at + j, k), sum),
                        k);
            });
        else
            FOR_VECTORS(j, k, n_columns,
                    { v_store_as(s->out, job->c, at + j, v_mul(v_load(from + j, k), scale), k); });
    }
}

// Registers are stored where the sums belong, unless they have to be changed, or a strip is not
// whole: then by way of `whole`.
static void run_pass(const tiles_job *job, int64_t row, int64_t column, lines ahead[2]) {
    const gemm_shape *s = job->shape;
    const int64_t n_rows = at_most(s->m - row, PASS), n_columns = at_most(s->n - column, PASS);
    const bool strips = n_rows % TILE_SIDE == 0 && n_columns % TILE_SIDE == 0,
               as_is = !job->last || (job->between.p == job->c && gemm_scale(s) == 1);
    const uint32_t *a = job->packed_a + row / TILE_SIDE * job->n_groups * TILE_WORDS;
    const int64_t ld = job->between.ld;
    float *there = job->between.p ? job->between.p + row * ld + column : NULL;
    if (strips && as_is) {
        pass_of(n_rows, n_columns, job, a, (sums){there, ld}, ahead);
        return;
    }
    float whole[PASS * PASS];
    if (job->begun) memset(whole, 0, sizeof whole);
    for (int64_t i = 0; i < n_rows && job->begun; i++)
        memcpy(whole + i * PASS, there + i * ld, sizeof *whole * (size_t)n_columns);
    pass_of(n_rows, n_columns, job, a, (sums){whole, PASS}, ahead);
    put_sums(job, row, column, n_rows, n_columns, whole);
}

static void run_block(const tiles_job *job) {
    const gemm_shape *s = job->shape;
    const int64_t strip = job->n_groups * TILE_WORDS;
    for (int64_t i = 0; i < s->m; i += TILE_SIDE) {
        const strip_source rows = rows_of_a(job, i);
        pack_strip(&rows, at_most(s->m - i, TILE_SIDE), job->k,
                job->packed_a + i / TILE_SIDE * strip);
    }
    for (int64_t j = 0; j < s->n; j += PASS) {
        for (int64_t at = j; at < j + PASS && at < s->n; at += TILE_SIDE) {
            const strip_source columns = columns_of_b(job, at);
            pack_strip(&columns, at_most(s->n - at, TILE_SIDE), job->k,
                    job->panel + (at - j) / TILE_SIDE * strip);
        }
        lines ahead[2] = {lines_of_next(job, j + PASS)};
        for (int64_t i = 0; i < s->m; i += PASS) {
            ahead[1] = lines_of_sums(job, i + PASS, j);
            run_pass(job, i, j, ahead);
        }
    }
}

// Notes where the job's block of k of b is: in memory, or, of what is held in blocks, in what is
// widened.
static void block_of_b(tiles_job *job, const void *b, void *widened) {
    const gemm_shape *s = job->shape;
    const widened_b plain = {(const uint16_t *)b + (s->tb ? job->k0 : job->k0 * s->ldb), s->ldb},
                    from = s->blocks ? widen_b(DT_BF16, s, b, job->k0, job->k, widened) : plain;
    job->b = from.p;
    job->ldb = from.ld;
}

// Sums that end as fp32 and are not added wait in c, others aside. Where there is no room aside
// (gemm_scratch_bytes) there is one block.
static void gemm_by_tiles(const gemm_shape *shape, const void *a, const void *b, void *c,
        void *scratch) {
    if (shape->m == 0 || shape->n == 0) return;
    const bool in_c = shape->out == DT_F32 && !shape->accumulate,
               fits = shape->out == DT_F32 && shape->accumulate && shape->k <= GEMM_WORDS;
    const int64_t groups = div_up(shape->k, TILE_GROUP),
                  n_blocks = fits || groups == 0 ? 1 : div_up(groups, MOST_GROUPS),
                  block_groups = div_up(groups, n_blocks);
    tiles_job job = {.shape = shape, .a = a, .c = c, .packed_a = scratch};
    job.panel = job.packed_a + round_up(shape->m, TILE_SIDE) * block_groups * TILE_SIDE;
    uint32_t *widened = job.panel + PASS * block_groups * TILE_SIDE;
    if (in_c) {
        job.between = (sums){c, shape->ldc};
    } else if (n_blocks > 1) {
        job.between = (sums){(float *)(void *)widened, shape->n};
        widened += shape->m * shape->n;
    }
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
}
