// How fast this machine multiplies matrices: the measured peak that utilisation is given
// against.
#include <stdlib.h>

#include "backend/cpu/gemm.h"
#include "base/clock.h"
#include "base/parallel.h"

static char *ones(dtype dt, int64_t n) {
    char *p = pages_alloc((size_t)(n * dtype_bytes(dt)));
    for (int64_t i = 0; p && i < n; i++) {
        if (dt == DT_BF16)
            ((uint16_t *)(void *)p)[i] = 0x3F80;
        else
            ((float *)(void *)p)[i] = 1;
    }
    return p;
}

drv_status gemm_time(arena *a, gemm_machine *m, const gemm_shape *s, int tries,
        double *flops_per_s) {
    gemm *g;
    DRV_TRY(gemm_new(a, m, s, &g));
    const int64_t na = s->m * s->k, nb = s->n * s->k, nc = s->m * s->n;
    const int64_t scratch = gemm_workspace(s, par_threads());
    char *x = ones(s->in, na), *y = ones(s->in, nb), *z = ones(s->out, nc),
         *w = pages_alloc((size_t)scratch);
    if (!x || !y || !z || !w) return drv_fail(DRV_E_DEVICE, "out of memory");
    double best = 1e30;
    for (int i = 0; i < tries; i++) {
        double t = clock_s();
        gemm_run(g, x, y, z, w);
        t = clock_s() - t;
        if (t < best) best = t;
    }
    pages_free(x, (size_t)(na * dtype_bytes(s->in)));
    pages_free(y, (size_t)(nb * dtype_bytes(s->in)));
    pages_free(z, (size_t)(nc * dtype_bytes(s->out)));
    pages_free(w, (size_t)scratch);
    *flops_per_s = 2.0 * (double)s->m * (double)s->n * (double)s->k / best;
    return DRV_OK;
}

static drv_status measure(arena *a, dtype dt, gemm_choice choice, int tries, double *best) {
    static const int64_t sizes[] = {1024, 768, 1536, 2048};
    gemm_machine *m;
    DRV_TRY(gemm_machine_open(a, choice, &m));
    drv_status s = DRV_OK;
    for (int i = 0; i < (tries > 4 ? 4 : 1) && s == DRV_OK; i++) {
        const int64_t n = sizes[i];
        gemm_shape g = {n, n, n, false, false, n, n, n, dt, DT_F32, false};
        double f;
        s = gemm_time(a, m, &g, tries, &f);
        if (s == DRV_OK && f > *best) *best = f;
    }
    gemm_machine_close(m);
    return s;
}

drv_status gemm_peak(dtype dt, int tries, double *out) {
    cpu_level level;
    DRV_TRY(cpu_level_chosen(&level));
    const bool own = dt == DT_F32 ? level > CPU_REF : level == CPU_AVX512_BF16,
               library = dt == DT_F32 || level >= CPU_AVX512;
    *out = 0;
    arena *a = arena_new("GEMM peak");
    drv_status s = DRV_OK;
    if (own) s = measure(a, dt, dt == DT_F32 ? GEMM_FP32 : GEMM_BF16, tries, out);
    if (library && s == DRV_OK) s = measure(a, dt, GEMM_ONEDNN, tries, out);
    arena_free(a);
    return s;
}
