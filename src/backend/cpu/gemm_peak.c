#include <stdlib.h>

#include "backend/cpu/gemm.h"
#include "base/clock.h"

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

drv_status gemm_time(
        arena *a, gemm_machine *m, const gemm_shape *s, int tries, double *flops_per_s) {
    gemm *g;
    DRV_TRY(gemm_new(a, m, s, &g));
    const int64_t na = s->m * s->k, nb = s->n * s->k, nc = s->m * s->n;
    char *x = ones(s->in, na), *y = ones(s->in, nb), *z = ones(s->out, nc);
    if (!x || !y || !z) return drv_fail(DRV_E_DEVICE, "out of memory");
    double best = 1e30;
    for (int i = 0; i < tries; i++) {
        double t = clock_s();
        gemm_run(g, x, y, z);
        t = clock_s() - t;
        if (t < best) best = t;
    }
    pages_free(x, (size_t)(na * dtype_bytes(s->in)));
    pages_free(y, (size_t)(nb * dtype_bytes(s->in)));
    pages_free(z, (size_t)(nc * dtype_bytes(s->out)));
    *flops_per_s = 2.0 * (double)s->m * (double)s->n * (double)s->k / best;
    return DRV_OK;
}

static drv_status measure(arena *a, dtype dt, int tries, double *out) {
    static const int64_t sizes[] = {1024, 768, 1536, 2048};
    *out = 0;
    if (dt == DT_BF16 && cpu_detect() < CPU_AVX512) return DRV_OK; // oneDNN has no bf16 there
    const char *before = getenv("DROVER_GEMM");
    char *keep = before ? arena_strdup(a, before) : NULL;
    setenv("DROVER_GEMM", "bf16", 1);
    gemm_machine *m;
    drv_status s = gemm_machine_open(a, &m);
    if (keep)
        setenv("DROVER_GEMM", keep, 1);
    else
        unsetenv("DROVER_GEMM");
    DRV_TRY(s);
    for (int i = 0; i < (tries > 4 ? 4 : 1) && s == DRV_OK; i++) {
        const int64_t n = sizes[i];
        gemm_shape g = {n, n, n, false, false, n, n, n, dt, DT_F32, false};
        double f;
        s = gemm_time(a, m, &g, tries, &f);
        if (s == DRV_OK && f > *out) *out = f;
    }
    gemm_machine_close(m);
    return s;
}

drv_status gemm_peak(dtype dt, int tries, double *out) {
    arena *a = arena_new("GEMM peak");
    drv_status s = measure(a, dt, tries, out);
    arena_free(a);
    return s;
}
