// A oneDNN that was built with threads of its own (TBB, say) is no yardstick: peaks and MFU come
// from our own kernels anyway, and nothing is timed by it. This program stands in for such a
// library by its own dnnl_version().
#include <dnnl.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/onednn.h"
#include "harness.h"

static unsigned runtime = DNNL_RUNTIME_TBB;

const dnnl_version_t *dnnl_version(void) {
    static dnnl_version_t version = {.major = 9};
    version.cpu_runtime = runtime;
    return &version;
}

static void runtimes(void **state) {
    (void)state;
    static const struct {
        unsigned runtime;
        bool want;
    } cases[] = {{DNNL_RUNTIME_TBB, false}, {DNNL_RUNTIME_SEQ, true}, {DNNL_RUNTIME_OMP, true},
            {DNNL_RUNTIME_NONE, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        runtime = cases[i].runtime;
        assert_int_equal(onednn_can_run(), cases[i].want);
    }
    runtime = DNNL_RUNTIME_TBB;
}

static void peak_without_it(void **state) {
    (void)state;
    arena *a = arena_new("test");
    backend *b;
    double f32 = -1, bf16 = -1;
    OK(backend_open(a, "cpu", &b));
    OK(backend_peak(b, DT_F32, 2, &f32));
    OK(backend_peak(b, DT_BF16, 2, &bf16));
    assert_true(cpu_detect() == CPU_REF ? f32 == 0 : f32 > 0);
    assert_true((bf16 > 0) == (cpu_detect() == CPU_AVX512_BF16 || gemm_amx(cpu_detect())));
    double peak;
    unsetenv("DROVER_PEAK_FLOPS");
    OK(backend_peak_flops(b, &peak));
    assert_true((peak > 0) == (f32 > 0));
    assert_int_equal(backend_describe(b).n_ways, 1);
    backend_close(b);
    arena_free(a);
}

static void no_product_of_it(void **state) {
    (void)state;
    arena *a = arena_new("test");
    const gemm_shape shape = {.m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8};
    double flops_per_s = -1;
    OK(gemm_time_onednn(a, &shape, 1, &flops_per_s));
    assert_true(flops_per_s == 0);
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runtimes),
            cmocka_unit_test(peak_without_it), cmocka_unit_test(no_product_of_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
