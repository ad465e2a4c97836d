// Matrix products: operands are packed block by block (pack.h), then tiles that live in registers
// run over the packed words (Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", ACM TOMS 34(3), 2008). Packing turns all forms (NN, NT, TN) and both types into
// the same words, so a bf16 product in fp32 arithmetic costs no more than an fp32 one.
// Legend: c = a b.
//
//                k of one block                   NR columns of b
//              +----------------+               +------+
//     MR rows  |  packed_a      |  x  k of the  | pa-  |   =   tile of c, MR x NR sums in registers
//              +----------------+     block     | nel  |
//                                               +------+
//
// Scratch (gemm_scratch_bytes): packed_a, one block of all rows of a; panel, one panel of b; aside,
// fp32 sums [m, n] of several blocks that end as bf16, or that are added to c; widened, where b is
// held in blocks of quantised numbers, what a block of k needs of it, which is packed as b is.
//
// Every sum over k is formed in the same order wherever an element lies in its tile, so how a
// product is cut changes no bit.
#pragma once
#include "kernels/kernels.h"
#include "kernels/levels/pack.h"
#include "kernels/levels/widen.h"

// A register tile is MR rows by NV vectors; panels of a that cross the rows of storage hold ACROSS
// rows. Tiles fetch what comes next every STEP words.
enum { MR = REGISTERS == 32 ? 8 : 4, NV = 3, NR = NV * WIDTH, ACROSS = 16, STEP = 8 };

// Rows of memory that are prefetched a few cache lines at a time between multiplications; all at
// once would fill the processor's miss buffers and stall it.
typedef struct lines {
    const char *row, *next;
    int64_t row_bytes, bytes, n_rows, per_step; // row_bytes from row to row, `bytes` of each
} lines;

// far: into the second-level cache, so that the first keeps its contents.
INLINE void fetch_some(const bool far, lines *l) {
    for (int64_t i = 0; i < l->per_step && l->n_rows > 0; i++) {
        if (far)
            v_prefetch_far(l->next);
        else
            v_prefetch(l->next);
        l->next += 64;
        if (l->next < l->row + l->bytes + 63) continue;
        l->row += l->row_bytes;
        l->next = l->row;
        l->n_rows--;
    }
}

typedef struct tile_ends { // where the sums of a register tile begin and end
    dtype dt_from;
    const void *from; // NULL: at 0
    int64_t ld_from;
    float scale; // of the products
    dtype dt;
    void *to;
    int64_t ld_to;
} tile_ends;

// MR rows of a times a panel of b; an instance of packed_tile.
typedef void tile_function(int64_t n_words, words_a a, const uint32_t *panel, const tile_ends *p,
        lines *ahead);

typedef vec mac_function(vec sum, uint32_t a, vec b);

INLINE void multiply(mac_function *mac, int64_t n_words, words_a a, const uint32_t *panel,
        vec sum[MR][NV]) {
    for (int64_t w = 0; w < n_words; w++) {
        vec b[NV];
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++)
            b[j] = load_words(panel + w * NR + j * WIDTH);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
            for (int j = 0; j < NV; j++)
                sum[i][j] = mac(sum[i][j], a.p[i * a.row + w * a.word], b[j]);
    }
}

// `general`, a constant: with a scale, and sums that may begin in bf16. Without it the end of a tile
// has no branches that would cost the multiplications their registers (21 % of a training step).
INLINE void register_tile(mac_function *mac, bool general, int64_t n_words, words_a rows_a,
        const uint32_t *panel, const tile_ends *tile, lines *ahead) {
    const dtype dt_from = general ? tile->dt_from : DT_F32;
    vec sum[MR][NV];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++)
            sum[i][j] = v_set(0);
    for (int64_t w = 0; w < n_words; w += STEP) {
        const int64_t row = w / STEP; // of c, for the end of this tile
        if (row < MR && tile->from)
            fetch((const char *)tile->from + row * tile->ld_from * dtype_bytes(dt_from),
                    NR * dtype_bytes(dt_from));
        else if (row < MR)
            fetch((const char *)tile->to + row * tile->ld_to * dtype_bytes(tile->dt),
                    NR * dtype_bytes(tile->dt));
        fetch_some(false, ahead);
        const words_a rest = {rows_a.p + w * rows_a.word, rows_a.row, rows_a.word};
        // The number of words is a constant; with a loop count that is read from memory a step
        // takes a tenth longer (Emerald Rapids).
        if (n_words - w >= STEP)
            multiply(mac, STEP, rest, panel + w * NR, sum);
        else
            multiply(mac, n_words - w, rest, panel + w * NR, sum);
    }
    if (general)
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
            for (int j = 0; j < NV; j++)
                sum[i][j] = v_mul(sum[i][j], v_set(tile->scale));
    if (tile->from)
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
            for (int j = 0; j < NV; j++)
                sum[i][j] =
                        v_add(v_load_as(dt_from, tile->from, i * tile->ld_from + j * WIDTH, WIDTH),
                                sum[i][j]);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++)
            v_store_as(tile->dt, tile->to, i * tile->ld_to + j * WIDTH, sum[i][j], WIDTH);
}

// Runs register_tile with constant strides along the rows, or along the panels, of a packed block.
// With strides that are read from memory, gcc keeps a pointer for each of the STEP x MR words on
// the stack, and products of panels run at 0.75 of the speed (AVX2, Zen 3).
INLINE void packed_tile(mac_function *mac, bool general, int64_t n_words, words_a a,
        const uint32_t *panel, const tile_ends *tile, lines *ahead) {
    if (a.word == 1)
        register_tile(mac, general, n_words, (words_a){a.p, a.row, 1}, panel, tile, ahead);
    else
        register_tile(mac, general, n_words, (words_a){a.p, 1, ACROSS}, panel, tile, ahead);
}

// Computes a tile of which only n_rows x n_cols exist, by way of a whole one.
INLINE void edge_tile(tile_function *tile, int64_t n_rows, int64_t n_cols, int64_t n_words,
        words_a a, const uint32_t *panel, const tile_ends *p, lines *ahead) {
    float whole[MR * NR] = {0};
    for (int64_t i = 0; i < n_rows && p->from; i++)
        FOR_VECTORS(j, k, n_cols, {
            v_store(whole + i * NR + j, v_load_as(p->dt_from, p->from, i * p->ld_from + j, k), k);
        });
    const tile_ends own = {.dt_from = DT_F32,
            .from = p->from ? whole : NULL,
            .ld_from = NR,
            .scale = p->scale,
            .dt = DT_F32,
            .to = whole,
            .ld_to = NR};
    tile(n_words, a, panel, &own, ahead);
    for (int64_t i = 0; i < n_rows; i++)
        FOR_VECTORS(j, k, n_cols,
                { v_store_as(p->dt, p->to, i * p->ld_to + j, v_load(whole + i * NR + j, k), k); });
}

typedef struct gemm_job {
    const gemm_shape *shape;
    matrix a, b;
    void *widened; // of b in blocks: b is that, then
    int64_t b_at;  // element of b that begins the block of k
    void *c;
    uint32_t *packed_a, *panel;
    int64_t ld_a; // words between packed rows of a
    float *aside;
    int64_t n_blocks; // of k
    // The block of the inner dimension: from element k0, k elements in n_words words.
    int64_t k0, k, n_words;
} gemm_job;

INLINE void pack_a(const arithmetic *by, const gemm_job *job) {
    const gemm_shape *shape = job->shape;
    if (shape->ta)
        pack_across(by, ACROSS, job->a, job->k0 * shape->lda, shape->m, job->k, true,
                job->packed_a);
    else
        pack_rows(by, job->a, job->k0, shape->m, job->k, job->packed_a, job->ld_a);
}

// Rows from i on of the packed block.
INLINE words_a packed_rows(const gemm_job *job, int64_t i) {
    if (!job->shape->ta) return (words_a){job->packed_a + i * job->ld_a, job->ld_a, 1};
    return (words_a){job->packed_a + i / ACROSS * ACROSS * job->n_words + i % ACROSS, 1, ACROSS};
}

// Columns j .. j + n of b.
INLINE void pack_b(const arithmetic *by, const gemm_job *job, int64_t j, int64_t n) {
    if (job->shape->tb)
        pack_transposed(by, NR, job->b, job->b_at + j * job->b.ld, n, job->k, job->panel);
    else
        pack_across(by, NR, job->b, job->b_at + j, n, job->k, j == 0, job->panel);
}

// Returns the columns from j on that pack_b takes next (none: all are packed), fetched by the
// register tiles of a panel.
INLINE lines lines_of_b(const arithmetic *by, const gemm_job *job, int64_t j) {
    const gemm_shape *shape = job->shape;
    const int64_t bytes = dtype_bytes(by->dt), left = shape->n - j, n = left < NR ? left : NR;
    const int64_t at = job->b_at + (shape->tb ? j * job->b.ld : j);
    const int64_t n_steps = div_up(shape->m, MR) * (job->n_words / STEP + 1);
    lines l = {.row = (const char *)job->b.p + at * bytes, .row_bytes = job->b.ld * bytes};
    l.next = l.row;
    l.bytes = (shape->tb ? job->k : n) * bytes;
    l.n_rows = n <= 0 ? 0 : shape->tb ? n : job->k;
    l.per_step = div_up(l.n_rows * (l.bytes / 64 + 1), n_steps);
    return l;
}

// A sum of several blocks that is added to c is formed aside first: c sees one addition whatever
// the number of blocks, so ranks may add sums that others have formed (docs/adr/0021).
INLINE bool adds_whole_sum(const gemm_job *job) {
    return job->shape->accumulate && job->shape->out != DT_BF16 && job->n_blocks > 1;
}

// Finds where the sums of the tile at row i, column j begin and end. Those of bf16 stay in fp32,
// aside, from the first block, which adds what c holds, until the last.
INLINE tile_ends ends_of(const gemm_job *job, int64_t i, int64_t j) {
    const gemm_shape *shape = job->shape;
    const bool narrow = shape->out == DT_BF16, apart = adds_whole_sum(job), aside = narrow || apart,
               begun = job->k0 > 0 || (shape->accumulate && !apart);
    float *sum = aside ? job->aside + i * shape->n + j : (float *)job->c + i * shape->ldc + j;
    const int64_t ld = aside ? shape->n : shape->ldc;
    tile_ends p = {.dt_from = DT_F32,
            .from = begun ? sum : NULL,
            .ld_from = ld,
            .scale = (float)gemm_scale(shape),
            .dt = DT_F32,
            .to = sum,
            .ld_to = ld};
    if (narrow && begun && job->k0 == 0) {
        p.dt_from = DT_BF16;
        p.from = (const uint16_t *)job->c + i * shape->ldc + j;
        p.ld_from = shape->ldc;
    }
    if (narrow && job->k0 + job->k == shape->k) {
        p.dt = DT_BF16;
        p.to = (uint16_t *)job->c + i * shape->ldc + j;
        p.ld_to = shape->ldc;
    }
    return p;
}

// Multiplies the panel of columns from j on, for the job's block of k.
INLINE void multiply_panel(const arithmetic *by, tile_function *tile, const gemm_job *job,
        int64_t j) {
    const gemm_shape *shape = job->shape;
    const int64_t n_cols = shape->n - j < NR ? shape->n - j : NR;
    pack_b(by, job, j, n_cols);
    lines ahead = lines_of_b(by, job, j + NR);
    for (int64_t i = 0; i < shape->m; i += MR) {
        const int64_t n_rows = shape->m - i < MR ? shape->m - i : MR;
        const words_a a = packed_rows(job, i);
        const tile_ends p = ends_of(job, i, j);
        if (n_rows == MR && n_cols == NR)
            tile(job->n_words, a, job->panel, &p, &ahead);
        else
            edge_tile(tile, n_rows, n_cols, job->n_words, a, job->panel, &p, &ahead);
    }
}

// Returns whether a product needs tiles that are `general`.
INLINE bool is_general(const gemm_shape *shape) {
    return gemm_scale(shape) != 1 || (shape->accumulate && shape->out == DT_BF16);
}

INLINE void gemm_blocks(const arithmetic *by, tile_function *tile, const gemm_shape *shape,
        const void *a, const void *b, void *c, void *scratch) {
    if (shape->m == 0 || shape->n == 0) return;
    const int64_t all_words = words_of(by, shape->k);
    const int64_t n_blocks = all_words > 0 ? div_up(all_words, GEMM_WORDS) : 1;
    const int64_t block_words = div_up(all_words, n_blocks);
    gemm_job job = {.shape = shape, .a = {a, shape->lda}, .b = {b, shape->ldb}, .c = c};
    job.ld_a = block_words + GEMM_PAD;
    job.packed_a = scratch;
    job.panel = job.packed_a + round_up(shape->m, ACROSS) * job.ld_a;
    job.aside = (float *)(void *)(job.panel + NR * block_words);
    job.n_blocks = n_blocks;
    job.widened =
            job.aside + (shape->out == DT_BF16 || adds_whole_sum(&job) ? shape->m * shape->n : 0);
    do { // once if k is 0, too
        const int64_t most = block_words * by->per_word, left = shape->k - job.k0;
        job.k = left < most ? left : most;
        job.n_words = words_of(by, job.k);
        job.b_at = shape->tb ? job.k0 : job.k0 * job.b.ld;
        if (shape->blocks) {
            const widened_b wide = widen_b(by->dt, shape, b, job.k0, job.k, job.widened);
            job.b = (matrix){wide.p, wide.ld};
            job.b_at = 0;
        }
        pack_a(by, &job);
        for (int64_t j = 0; j < shape->n; j += NR)
            multiply_panel(by, tile, &job, j);
        job.k0 += job.k;
    } while (job.k0 < shape->k);
    for (int64_t i = 0; i < shape->m && adds_whole_sum(&job); i++)
        for (int64_t j = 0; j < shape->n; j++)
            ((float *)job.c)[i * shape->ldc + j] += job.aside[i * shape->n + j];
}
