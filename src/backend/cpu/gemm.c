#include "backend/cpu/gemm.h"

#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/kernels.h"

enum { MAX_MEMORIES = 4, WIDE_K = 1024 };

struct gemm_machine {
    arena *a;
    dnnl_engine_t engine;
    dnnl_stream_t *stream; // by thread
    bool bf16;
    const kernels *k;
    void **wide; // by thread: scratch for widened tiles
    int64_t wide_bytes;
    void **scratch; // by thread: oneDNN's, which must not be shared
    int64_t scratch_bytes;
    dnnl_primitive_t *primitives; // to destroy
    dnnl_memory_t *memories;
    int n_primitives, cap_primitives, n_memories, cap_memories;
    gemm **made; // one for each shape: layers share them
    int n_made, cap_made;
};

typedef struct tile_kind { // one oneDNN primitive and its arguments for each thread
    int64_t rows, cols, k;
    dnnl_primitive_t primitive;
    dnnl_memory_t (*memory)[MAX_MEMORIES]; // by thread: a, b, c, oneDNN's scratch
} tile_kind;

struct gemm {
    gemm_machine *m;
    gemm_shape s;
    int64_t tile_m, tile_n, n_m, n_n;
    int64_t k_block, n_k;    // widened tiles are summed over blocks of k, others take it whole
    tile_kind kind[2][2][2]; // full or rest in m, in n, in k
    bool widen;
};

static bool is_intel(void) {
    return strstr(cpu_model_name(), "Intel") != NULL;
}

// Intel without AMX runs the bf16 dot product at no more than the fp32 rate (half on a measured
// Emerald Rapids: 87 against 175 GFLOP/s a core); AMD at twice (Zen 4: 210 against 105).
static bool bf16_is_faster(cpu_level level) {
    const char *force = getenv("DROVER_GEMM");
    if (force && strcmp(force, "bf16") == 0) return level >= CPU_AVX512;
    if (force && strcmp(force, "fp32") == 0) return false;
    return cpu_has_amx_bf16() || (level == CPU_AVX512_BF16 && !is_intel());
}

drv_status gemm_machine_open(arena *a, gemm_machine **out) {
    gemm_machine *m = ARENA_NEW(a, gemm_machine);
    m->a = a;
    cpu_level level = cpu_detect();
    const char *force = getenv("DROVER_CPU");
    if (force) {
        cpu_level asked;
        if (!cpu_level_parse(force, &asked))
            return drv_fail(DRV_E_USAGE,
                    "DROVER_CPU is \"%s\", expected ref, avx2, avx512 or avx512_bf16", force);
        if (asked > level)
            return drv_fail(DRV_E_USAGE, "DROVER_CPU is \"%s\", but this processor has only %s",
                    force, cpu_level_name(level));
        level = asked;
    }
    m->k = kernels_for(level);
    m->bf16 = bf16_is_faster(level);
    if (dnnl_engine_create(&m->engine, dnnl_cpu, 0) != dnnl_success)
        return drv_fail(DRV_E_DEVICE, "oneDNN has no CPU engine");
    m->stream = ARENA_ARRAY(a, dnnl_stream_t, par_threads());
    m->wide = ARENA_ARRAY(a, void *, par_threads());
    m->scratch = ARENA_ARRAY(a, void *, par_threads());
    for (int i = 0; i < par_threads(); i++)
        if (dnnl_stream_create(&m->stream[i], m->engine, dnnl_stream_default_flags) != dnnl_success)
            return drv_fail(DRV_E_DEVICE, "oneDNN could not make a stream");
    *out = m;
    return DRV_OK;
}

void gemm_machine_close(gemm_machine *m) {
    for (int i = 0; i < m->n_memories; i++)
        dnnl_memory_destroy(m->memories[i]);
    for (int i = 0; i < m->n_primitives; i++)
        dnnl_primitive_destroy(m->primitives[i]);
    for (int i = 0; i < par_threads(); i++) {
        dnnl_stream_destroy(m->stream[i]);
        free(m->wide[i]);
        free(m->scratch[i]);
    }
    dnnl_engine_destroy(m->engine);
    free(m->primitives);
    free(m->memories);
    free(m->made);
}

bool gemm_uses_bf16(const gemm_machine *m) {
    return m->bf16;
}

static dnnl_data_type_t dnnl_type(dtype d) {
    return d == DT_BF16 ? dnnl_bf16 : dnnl_f32;
}

static drv_status check(dnnl_status_t s, const char *what) {
    if (s == dnnl_success) return DRV_OK;
    return drv_fail(DRV_E_DEVICE, "oneDNN: %s failed with status %d", what, (int)s);
}

static drv_status describe(
        dnnl_memory_desc_t *d, int64_t rows, int64_t cols, bool transposed, int64_t ld, dtype dt) {
    dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
    return check(dnnl_memory_desc_init_by_strides(d, 2, dims, dnnl_type(dt), strides), "a layout");
}

// Makes `buffers` (one for each thread) at least `bytes` long.
static void grow_buffers(void **buffers, int64_t *have, int64_t bytes) {
    if (bytes <= *have) return;
    *have = (bytes + 63) / 64 * 64;
    for (int i = 0; i < par_threads(); i++) {
        free(buffers[i]);
        buffers[i] = aligned_alloc(64, (size_t)*have);
        DRV_ASSERT(buffers[i], "out of memory for GEMM scratch");
    }
}

// Also fills desc[3], oneDNN's scratch.
static drv_status build_primitive(gemm *g, tile_kind *t, dnnl_memory_desc_t desc[4]) {
    gemm_machine *m = g->m;
    dnnl_matmul_desc_t md;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    DRV_TRY(check(dnnl_matmul_desc_init(&md, &desc[0], &desc[1], NULL, &desc[2]), "matmul"));
    DRV_TRY(check(dnnl_primitive_attr_create(&attr), "attributes"));
    DRV_TRY(check(dnnl_post_ops_create(&post), "post-ops"));
    const bool sum = g->s.accumulate || g->widen;
    dnnl_status_t s = sum ? dnnl_post_ops_append_sum(post, 1) : dnnl_success;
    if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(attr, post);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (s == dnnl_success) s = dnnl_primitive_desc_create(&pd, &md, attr, m->engine, NULL);
    if (s == dnnl_success) {
        desc[3] = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        s = dnnl_primitive_create(&t->primitive, pd);
        dnnl_primitive_desc_destroy(pd);
    }
    dnnl_post_ops_destroy(post);
    dnnl_primitive_attr_destroy(attr);
    DRV_TRY(check(s, "creating a matmul"));
    MEM_GROW(m->primitives, m->n_primitives, m->cap_primitives);
    m->primitives[m->n_primitives++] = t->primitive;
    return DRV_OK;
}

static drv_status build_kind(arena *a, gemm *g, tile_kind *t) {
    const gemm_shape *s = &g->s;
    const dtype in = g->widen ? DT_F32 : s->in, out = g->widen ? DT_F32 : s->out;
    dnnl_memory_desc_t d[4];
    // Widened tiles are dense.
    int64_t lda = g->widen ? (s->ta ? t->rows : t->k) : s->lda;
    int64_t ldb = g->widen ? (s->tb ? t->k : t->cols) : s->ldb;
    int64_t ldc = g->widen && s->out == DT_BF16 ? t->cols : s->ldc;
    DRV_TRY(describe(&d[0], t->rows, t->k, s->ta, lda, in));
    DRV_TRY(describe(&d[1], t->k, t->cols, s->tb, ldb, in));
    DRV_TRY(describe(&d[2], t->rows, t->cols, false, ldc, out));
    DRV_TRY(build_primitive(g, t, d));
    t->memory = arena_alloc(a, sizeof *t->memory * (size_t)par_threads());
    gemm_machine *m = g->m;
    grow_buffers(m->scratch, &m->scratch_bytes, (int64_t)dnnl_memory_desc_get_size(&d[3]));
    for (int i = 0; i < par_threads(); i++)
        for (int j = 0; j < MAX_MEMORIES; j++) {
            DRV_TRY(check(dnnl_memory_create(&t->memory[i][j], &d[j], m->engine, DNNL_MEMORY_NONE),
                    "a memory object"));
            MEM_GROW(m->memories, m->n_memories, m->cap_memories);
            m->memories[m->n_memories++] = t->memory[i][j];
        }
    return DRV_OK;
}

static int64_t parts(int64_t n, int64_t size) {
    return (n + size - 1) / size;
}

// Near-equal pieces of n, multiples of 16.
static int64_t piece(int64_t n, int64_t n_pieces) {
    const int64_t size = parts(parts(n, n_pieces), 16) * 16;
    return size < n ? size : n;
}

// What a grid of tiles costs over one perfect product: packing each operand again for each tile of
// the other (6.4 flops an element), and threads that wait for the last tile; two threads count
// most, four and eight a little. Tiles that span all columns take oneDNN's faster path (5 %
// measured).
static double tiling_cost(int64_t m, int64_t n, int64_t tile_m, int64_t tile_n) {
    static const double share[] = {0.9, 0.08, 0.02};
    const int64_t tiles = parts(m, tile_m) * parts(n, tile_n);
    const double work = (double)m * (double)n, tile = (double)tile_m * (double)tile_n;
    double wait = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t threads = 2 << i;
        wait += share[i] * (double)(parts(tiles, threads) * threads) * tile / work;
    }
    return wait * (1 + 6.4 / (double)tile_m + 6.4 / (double)tile_n) * (tile_n == n ? 0.95 : 1);
}

// The cheapest grid with tiles of 64 to 512 rows and 128 to 640 columns. It depends on the shape
// alone. Measured beside others in bench/results/2026-11-21-zen4.md.
static void choose_tiles(gemm *g) {
    const gemm_shape *s = &g->s;
    double best = 1e30;
    for (int64_t i = parts(s->m, 512); i <= parts(s->m, 64); i++) {
        const int64_t tile_m = piece(s->m, i);
        for (int64_t j = parts(s->n, 640); j <= parts(s->n, 128); j++) {
            const int64_t tile_n = piece(s->n, j);
            const double cost = tiling_cost(s->m, s->n, tile_m, tile_n);
            if (cost < best) best = cost, g->tile_m = tile_m, g->tile_n = tile_n;
        }
    }
    g->n_m = parts(s->m, g->tile_m);
    g->n_n = parts(s->n, g->tile_n);
}

static bool same_gemm(const gemm_shape *a, const gemm_shape *b) {
    return a->m == b->m && a->n == b->n && a->k == b->k && a->ta == b->ta && a->tb == b->tb &&
           a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc && a->in == b->in &&
           a->out == b->out && a->accumulate == b->accumulate;
}

drv_status gemm_new(arena *a, gemm_machine *m, const gemm_shape *s, gemm **out) {
    for (int i = 0; i < m->n_made; i++)
        if (same_gemm(&m->made[i]->s, s)) {
            *out = m->made[i];
            return DRV_OK;
        }
    gemm *g = ARENA_NEW(a, gemm);
    g->m = m;
    g->s = *s;
    g->widen = s->in == DT_BF16 && !m->bf16;
    choose_tiles(g);
    g->k_block = g->widen && s->k > WIDE_K ? WIDE_K : s->k;
    g->n_k = parts(s->k, g->k_block);
    if (g->widen) {
        int64_t floats = (g->tile_m + g->tile_n) * g->k_block + g->tile_m * g->tile_n;
        grow_buffers(m->wide, &m->wide_bytes, floats * (int64_t)sizeof(float));
    }
    const int64_t rows[2] = {g->tile_m, s->m - (g->n_m - 1) * g->tile_m};
    const int64_t cols[2] = {g->tile_n, s->n - (g->n_n - 1) * g->tile_n};
    const int64_t ks[2] = {g->k_block, s->k - (g->n_k - 1) * g->k_block};
    for (int at = 0; at < 8 && s->in != DT_F64; at++) {
        const int i = at >> 2, j = at >> 1 & 1, l = at & 1;
        const int fi = i && rows[1] != rows[0], fj = j && cols[1] != cols[0],
                  fl = l && ks[1] != ks[0];
        tile_kind *t = &g->kind[i][j][l];
        if (fi != i || fj != j || fl != l) { // the rest is as long as the others
            *t = g->kind[fi][fj][fl];
            continue;
        }
        *t = (tile_kind){.rows = rows[i], .cols = cols[j], .k = ks[l]};
        DRV_TRY(build_kind(a, g, t));
    }
    MEM_GROW(m->made, m->n_made, m->cap_made);
    m->made[m->n_made++] = g;
    *out = g;
    return DRV_OK;
}

typedef struct gemm_call {
    const gemm *g;
    const char *a, *b;
    char *c;
} gemm_call;

// A stored panel [rows, cols] with stride ld, widened and dense.
static void widen(
        const kernels *k, const char *src, int64_t rows, int64_t cols, int64_t ld, float *dst) {
    for (int64_t r = 0; r < rows; r++)
        k->cast(DT_BF16, src + 2 * r * ld, DT_F32, dst + r * cols, cols);
}

static void run_primitive(
        const gemm *g, const tile_kind *t, int thread, const void *a, const void *b, void *c) {
    dnnl_memory_t *mem = t->memory[thread];
    dnnl_memory_set_data_handle(mem[0], (void *)(uintptr_t)a);
    dnnl_memory_set_data_handle(mem[1], (void *)(uintptr_t)b);
    dnnl_memory_set_data_handle(mem[2], c);
    dnnl_memory_set_data_handle(mem[3], g->m->scratch[thread]);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, mem[0]}, {DNNL_ARG_WEIGHTS, mem[1]},
            {DNNL_ARG_DST, mem[2]}, {DNNL_ARG_SCRATCHPAD, mem[3]}};
    dnnl_status_t s = dnnl_primitive_execute(t->primitive, g->m->stream[thread], 4, args);
    DRV_ASSERT(s == dnnl_success, "oneDNN matmul failed with status %d", (int)s);
}

static void widened_tile(const gemm *g, const tile_kind kinds[2], int thread, const char *a,
        const char *b, char *c) {
    const gemm_shape *s = &g->s;
    const kernels *k = g->m->k;
    const int64_t rows = kinds->rows, cols = kinds->cols;
    const bool narrow = s->out == DT_BF16;
    float *wa = g->m->wide[thread], *wb = wa + rows * g->k_block, *wc = wb + cols * g->k_block;
    float *sum = narrow ? wc : (float *)(void *)c;
    const int64_t ld_sum = narrow ? cols : s->ldc;
    for (int64_t r = 0; r < rows && !s->accumulate; r++)
        memset(sum + r * ld_sum, 0, sizeof *sum * (size_t)cols);
    for (int64_t i = 0; i < g->n_k; i++) {
        const tile_kind *t = &kinds[i == g->n_k - 1];
        const int64_t first = i * g->k_block;
        widen(k, a + 2 * (s->ta ? first * s->lda : first), s->ta ? t->k : rows, s->ta ? rows : t->k,
                s->lda, wa);
        widen(k, b + 2 * (s->tb ? first : first * s->ldb), s->tb ? cols : t->k, s->tb ? t->k : cols,
                s->ldb, wb);
        run_primitive(g, t, thread, wa, wb, sum);
    }
    for (int64_t r = 0; r < rows && narrow; r++)
        k->cast(DT_F32, wc + r * cols, DT_BF16, c + 2 * r * s->ldc, cols);
}

static void f64_tile(const gemm_shape *s, int64_t rows, int64_t cols, const double *a,
        const double *b, double *c) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double sum = s->accumulate ? c[i * s->ldc + j] : 0;
            for (int64_t k = 0; k < s->k; k++)
                sum += a[s->ta ? k * s->lda + i : i * s->lda + k] *
                       b[s->tb ? j * s->ldb + k : k * s->ldb + j];
            c[i * s->ldc + j] = sum;
        }
}

static void run_tile(void *arg, int64_t index, int thread) {
    const gemm_call *call = arg;
    const gemm *g = call->g;
    const gemm_shape *s = &g->s;
    const int64_t i = index % g->n_m, j = index / g->n_m, row = i * g->tile_m, col = j * g->tile_n;
    const int64_t es = dtype_bytes(s->in), os = dtype_bytes(s->out);
    const char *a = call->a + es * (s->ta ? row : row * s->lda);
    const char *b = call->b + es * (s->tb ? col * s->ldb : col);
    char *c = call->c + os * (row * s->ldc + col);
    const tile_kind *kinds = g->kind[i == g->n_m - 1][j == g->n_n - 1];
    if (s->in == DT_F64)
        f64_tile(s, i == g->n_m - 1 ? s->m - row : g->tile_m,
                j == g->n_n - 1 ? s->n - col : g->tile_n, (const void *)a, (const void *)b,
                (void *)c);
    else if (g->widen)
        widened_tile(g, kinds, thread, a, b, c);
    else
        run_primitive(g, &kinds[1], thread, a, b, c);
}

void gemm_run(const gemm *g, const void *a, const void *b, void *c) {
    gemm_call call = {g, a, b, c};
    par_for(g->n_m * g->n_n, run_tile, &call);
}
