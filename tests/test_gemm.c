// Tiled products against plain loops in double: all transpositions and types, rows with gaps, sizes
// that leave rests in m, n and k, both arithmetics of bf16, 1 and 3 threads.
#include "harness.h"

#include <math.h>

#include "backend/cpu/gemm.h"

static double get(dtype dt, const void *p, int64_t i) {
    return dt == DT_BF16 ? (double)bf16_to_f32(((const uint16_t *)p)[i])
                         : (double)((const float *)p)[i];
}

static void *random_array(dtype dt, int64_t n, uint64_t seed) {
    char *p = mem_alloc((size_t)(n * dtype_bytes(dt)));
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)noise(seed, (uint64_t)i);
        if (dt == DT_BF16)
            ((uint16_t *)(void *)p)[i] = f32_to_bf16(x);
        else
            ((float *)(void *)p)[i] = x;
    }
    return p;
}

// Error of a sum of k products of numbers below 1 in fp32, 2^-24 sqrt(k) for each rounding that
// matters, and one rounding to the output type.
static void check(gemm_machine *m, arena *a, gemm_shape s) {
    s.lda = (s.ta ? s.m : s.k) + 3;
    s.ldb = (s.tb ? s.k : s.n) + 5;
    s.ldc = s.n + 2;
    const int64_t nc = s.m * s.ldc;
    char *x = random_array(s.in, (s.ta ? s.k : s.m) * s.lda, 1);
    char *y = random_array(s.in, (s.tb ? s.n : s.k) * s.ldb, 2);
    char *before = random_array(s.out, nc, 3), *c = random_array(s.out, nc, 3);
    gemm *g;
    OK(gemm_new(a, m, &s, &g));
    void *workspace = mem_alloc((size_t)gemm_workspace(&s, par_threads()));
    gemm_run(g, x, y, c, workspace);
    const double bound = 8 * 0x1p-24 * sqrt((double)s.k) * sqrt((double)s.k) +
                         (s.out == DT_BF16 ? 0x1p-8 * 2 * sqrt((double)s.k) : 0);
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.ldc; j++) {
            double want = j >= s.n || s.accumulate ? get(s.out, before, i * s.ldc + j) : 0;
            for (int64_t k = 0; k < s.k && j < s.n; k++)
                want += get(s.in, x, s.ta ? k * s.lda + i : i * s.lda + k) *
                        get(s.in, y, s.tb ? j * s.ldb + k : k * s.ldb + j);
            const double got = get(s.out, c, i * s.ldc + j);
            if (!(fabs(got - want) <= (j < s.n ? bound : 0)))
                fail_msg("%s->%s %lldx%lldx%lld ta %d tb %d acc %d: [%lld,%lld] is %.7g, expected "
                         "%.7g",
                        dtype_name(s.in), dtype_name(s.out), (long long)s.m, (long long)s.n,
                        (long long)s.k, s.ta, s.tb, s.accumulate, (long long)i, (long long)j, got,
                        want);
        }
    free(x), free(y), free(before), free(c), free(workspace);
}

static void all_shapes(gemm_choice choice) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {2, 3, 5}, {17, 33, 64}, {130, 200, 70},
            {65, 650, 40}, {40, 24, 2100}, {530, 130, 20}, {70, 140, 1024}};
    arena *a = arena_new("gemm");
    gemm_machine *m;
    OK(gemm_machine_open(a, choice, &m));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int bits = 0; bits < 16; bits++) {
            const bool bf16 = bits & 4, narrow = bits & 8;
            gemm_shape s = {.m = shapes[i][0],
                    .n = shapes[i][1],
                    .k = shapes[i][2],
                    .ta = bits & 1,
                    .tb = bits & 2,
                    .in = bf16 ? DT_BF16 : DT_F32,
                    .out = bf16 && narrow ? DT_BF16 : DT_F32,
                    .accumulate = !bf16 && narrow};
            check(m, a, s);
            if (bf16 && !narrow) {
                s.accumulate = true;
                check(m, a, s);
            }
        }
    gemm_machine_close(m);
    arena_free(a);
}

static void bf16_dot_product(void **state) {
    (void)state;
    if (cpu_detect() < CPU_AVX512_BF16) skip();
    all_shapes(GEMM_BF16);
}

static void every_level(void **state) {
    (void)state;
    for (int l = CPU_REF; l <= (int)cpu_detect(); l++) {
        setenv("DROVER_CPU", cpu_level_name((cpu_level)l), 1);
        all_shapes(GEMM_FP32);
    }
    unsetenv("DROVER_CPU");
    par_set_threads(3);
    all_shapes(GEMM_FP32);
    par_set_threads(2);
}

static void by_onednn(void **state) {
    (void)state;
    all_shapes(GEMM_ONEDNN);
}

// A product cut for any number of threads has the bits of one that is not cut.
static void bits(void **state) {
    (void)state;
    enum { M = 530, N = 400, K = 1700 };
    arena *a = arena_new("gemm");
    for (int form = 0; form < 12; form++) { // the last four: bf16 by dot product
        const gemm_choice choice = form < 8 ? GEMM_FP32 : GEMM_BF16;
        if (choice == GEMM_BF16 && cpu_detect() < CPU_AVX512_BF16) break;
        const dtype in = form < 4 ? DT_F32 : DT_BF16;
        const gemm_shape s = {M, N, K, form & 1, form & 2, form & 1 ? M : K, form & 2 ? K : N, N,
                in, in, false};
        char *x = random_array(in, M * K, 1), *y = random_array(in, N * K, 2);
        char *want = random_array(in, M * N, 3), *got = random_array(in, M * N, 3);
        void *scratch = mem_alloc((size_t)gemm_scratch_bytes(&s));
        for (int threads = 1; threads < 8; threads++) {
            gemm_machine *m;
            gemm *g;
            par_set_threads(threads);
            OK(gemm_machine_open(a, choice, &m));
            OK(gemm_new(a, m, &s, &g));
            void *workspace = mem_alloc((size_t)gemm_workspace(&s, threads));
            gemm_run(g, x, y, got, workspace);
            free(workspace);
            gemm_kernels(m)->gemm(&s, x, y, want, scratch);
            assert_memory_equal(got, want, (size_t)(M * N * dtype_bytes(in)));
            gemm_machine_close(m);
        }
        free(x), free(y), free(want), free(got), free(scratch);
    }
    par_set_threads(2);
    arena_free(a);
}

int main(void) {
    par_set_threads(2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(bf16_dot_product),
            cmocka_unit_test(every_level), cmocka_unit_test(by_onednn), cmocka_unit_test(bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
