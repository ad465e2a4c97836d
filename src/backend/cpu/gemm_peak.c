// Measures the speed of products of one shape and the peak for MFU: products of tile registers
// only, or the best of a few square products.
#include "backend/cpu/gemm.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "base/str.h"

enum { N_BUFFERS = 4 }; // a, b, c, scratch

// Iterations of a loop over tile registers: some 2 ms if a product takes 16 cycles.
enum { SPINS = 100000 };

typedef struct buffers {
    void *p[N_BUFFERS];
    size_t bytes[N_BUFFERS];
} buffers;

static void free_buffers(buffers *all) {
    for (int i = 0; i < N_BUFFERS; i++)
        if (all->p[i]) pages_free(all->p[i], all->bytes[i]);
}

static void fill_ones(dtype dt, int64_t n, void *p) {
    for (int64_t i = 0; i < n; i++) {
        if (dt == DT_BF16)
            ((uint16_t *)p)[i] = 0x3F80;
        else
            ((float *)p)[i] = 1;
    }
}

// Allocates operands, all ones, and a result, all zeros.
static drv_status get_buffers(const gemm_shape *shape, int64_t scratch_bytes, buffers *all) {
    const int64_t n[] = {shape->m * shape->k, shape->n * shape->k, shape->m * shape->n};
    const dtype dt[] = {shape->in, shape->in, shape->out};
    *all = (buffers){.bytes[3] = (size_t)scratch_bytes};
    for (int i = 0; i < 3; i++)
        all->bytes[i] = (size_t)(n[i] * dtype_bytes(dt[i]));
    for (int i = 0; i < N_BUFFERS; i++) {
        all->p[i] = pages_alloc(all->bytes[i]);
        if (all->p[i]) continue;
        free_buffers(all);
        return drv_fail(DRV_E_DEVICE,
                "out of memory: %s wanted to time a product of %lld x %lld x %lld (%s)",
                str_bytes((double)all->bytes[i]), (long long)shape->m, (long long)shape->n,
                (long long)shape->k, dtype_name(shape->in));
    }
    fill_ones(dt[0], n[0], all->p[0]);
    fill_ones(dt[1], n[1], all->p[1]);
    return DRV_OK;
}

drv_status gemm_time(arena *a, gemm_machine *m, const gemm_shape *shape, int tries,
        double *flops_per_s) {
    gemm *product;
    buffers all;
    DRV_TRY(gemm_new(a, m, shape, NULL, &product));
    DRV_TRY(get_buffers(shape, gemm_bytes(product), &all));
    double best = 1e30;
    for (int i = 0; i < tries; i++) {
        const double begin = clock_s();
        gemm_run(product, all.p[0], all.p[1], all.p[2], all.p[3], (int64_t)all.bytes[3]);
        const double seconds = clock_s() - begin;
        if (seconds < best) best = seconds;
    }
    free_buffers(&all);
    *flops_per_s = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k / best;
    return DRV_OK;
}

static gemm_shape square(int64_t n, dtype dt) {
    return (gemm_shape){.m = n,
            .n = n,
            .k = n,
            .lda = n,
            .ldb = n,
            .ldc = n,
            .in = dt,
            .out = DT_F32,
            .scale = 1};
}

// A quick measurement tries two sizes, and skips the second if the first shows that it would take
// long: in a build with ASan, or while other programs have the cores.
static drv_status measure(arena *a, dtype dt, gemm_choice choice, int tries, double *best) {
    enum { QUICK_TRIES = 4, QUICK_SIZES = 2, SIZES = 5 };
    static const int64_t sizes[SIZES] = {192, 768, 1024, 1536, 2048};
    const double longest_s = 0.25;
    const bool quick = tries <= QUICK_TRIES;
    gemm_machine *m;
    DRV_TRY(gemm_machine_open(a, choice, &m));
    drv_status status = DRV_OK;
    for (int i = 0; i < (quick ? QUICK_SIZES : SIZES) && status == DRV_OK; i++) {
        const int64_t n = sizes[i];
        const gemm_shape shape = square(n, dt);
        double rate = 0;
        if (i && quick && 2.0 * (double)(n * n * n) * tries > longest_s * *best) break;
        status = gemm_time(a, m, &shape, tries, &rate);
        if (status == DRV_OK && rate > *best) *best = rate;
    }
    gemm_machine_close(m);
    return status;
}

static void spin_tiles(void *arg, int64_t index DRV_UNUSED) {
    const tile_kernels *const *tiles = arg;
    (*tiles)->spin(SPINS);
}

// Measures tile products of registers, without memory, on all threads.
static double tile_peak(const tile_kernels *tiles, int tries) {
    double best = 1e30;
    for (int i = 0; i < tries; i++) {
        const double begin = clock_s();
        par_for(par_threads(), spin_tiles, &tiles);
        const double seconds = clock_s() - begin;
        if (seconds < best) best = seconds;
    }
    return 4.0 * SPINS * TILE_FLOPS * par_threads() / best;
}

drv_status gemm_peak(dtype dt, int tries, double *out) {
    cpu_level level;
    DRV_TRY(cpu_level_chosen(&level));
    const tile_kernels *tiles = dt == DT_BF16 ? gemm_amx(level) : NULL;
    *out = 0;
    if (tiles) {
        *out = tile_peak(tiles, tries);
        return DRV_OK;
    }
    if (level < (dt == DT_F32 ? CPU_PLAIN : CPU_AVX512_BF16)) return DRV_OK;
    arena *a = arena_new("GEMM peak");
    const drv_status status = measure(a, dt, dt == DT_F32 ? GEMM_FP32 : GEMM_BF16, tries, out);
    arena_free(a);
    return status;
}
