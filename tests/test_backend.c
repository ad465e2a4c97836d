// The vtable of back ends: what null and cpu say of themselves, plans made without a device, and
// memory that the system refuses.
#include <sys/resource.h>
#include <time.h>

#include "backend/backend.h"
#include "backend/cpu/gemm.h"
#include "harness.h"

// A product of two inputs, its result an output; n rows.
static graph *product_graph(arena *a, int64_t n) {
    graph *g = graph_new(a, "product");
    tensor *x = graph_state(g, TENSOR_INPUT, "x", DT_F32, 2, (int64_t[]){n, 64});
    tensor *w = graph_state(g, TENSOR_WEIGHT, "w", DT_F32, 2, (int64_t[]){64, 64});
    graph_add(g, OP_matmul, 2, (tensor *[]){x, w}, &(op_attrs){.matmul.tb = 1});
    return g;
}

// --- a peak that others disturb: looks are low while they take the cores, never high
static const double *looks;
static int n_looks, look_ms, n_ms = -1; // of a clock that looks alone advance; -1: the machine's

int __real_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out) {
    if (n_ms < 0) return __real_clock_gettime(id, out);
    *out = (struct timespec){n_ms / 1000, n_ms % 1000 * 1000000L};
    return 0;
}

static drv_status next_look(backend *b, dtype dt, int tries, double *flops_per_s) {
    (void)b, (void)tries;
    *flops_per_s = dt == DT_F32 ? 0 : looks[n_looks++];
    if (dt == DT_BF16) n_ms += look_ms;
    return DRV_OK;
}

TEST(peak_is_looked_at_until_two_agree) {
    static const struct {
        double look[10], want;
        int n, ms;
    } cases[] = {{.look = {100e9, 98e9}, .want = 100e9, .n = 2},
            {.look = {40e9, 100e9, 60e9, 97e9}, .want = 100e9, .n = 4},
            {.look = {40e9, 41e9}, .want = 41e9, .n = 2}, {.look = {0, 0}, .want = 0, .n = 2},
            {.look = {10e9, 20e9, 40e9, 80e9, 160e9, 320e9, 640e9, 1280e9, 1280e9},
                    .want = 1280e9,
                    .n = 8},
            // Slow looks hold up no start.
            {.look = {10e9, 20e9, 40e9}, .want = 20e9, .n = 2, .ms = 250}};
    const backend_vtable calls = {.name = "fake", .peak = next_look};
    backend fake = {.v = &calls};
    unsetenv("DROVER_PEAK_FLOPS");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double peak;
        looks = cases[i].look;
        n_looks = 0;
        look_ms = cases[i].ms;
        n_ms = 0;
        OK(backend_peak_flops(&fake, &peak));
        n_ms = -1;
        if (peak != cases[i].want || n_looks != cases[i].n)
            fail_msg("case %zu: %g FLOP/s after %d looks, expected %g after %d", i, peak, n_looks,
                    cases[i].want, cases[i].n);
    }
    setenv("DROVER_PEAK_FLOPS", "1e11", 1);
}

TEST(null_plans_what_cpu_runs) {
    backend *cpu, *null;
    plan *on_cpu, *on_null;
    executable *e;
    OK(backend_open_host(a, &cpu));
    null = backend_open_planner(a, false);
    OK(backend_compile(a, cpu, product_graph(a, 512), &on_cpu, &e));
    OK(backend_compile(a, null, product_graph(a, 512), &on_null, &e));
    assert_true(on_cpu->arena_bytes > 0);
    assert_int_equal(on_null->arena_bytes, on_cpu->arena_bytes);
    assert_int_equal(backend_held_bytes(null), 0);
    FAILS(backend_read(null, "x", 0, 4, &(float){0}), DRV_E_DEVICE, "\"x\"");
    backend_close(null);
    backend_close(cpu);
}

TEST(peak_is_measured_or_said) {
    static const struct {
        const char *said;
        double least, most; // FLOP/s; least 0: refused
    } cases[] = {{"", 1e6, 1e16}, {"1.5e12", 1.5e12, 1.5e12}, {"fast", 0, 0}, {"-1", 0, 0},
            {"0", 0, 0}, {"inf", 0, 0}};
    backend *b;
    double peak;
    OK(backend_open_host(a, &b));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("DROVER_PEAK_FLOPS", cases[i].said, 1);
        const drv_status status = backend_peak_flops(b, &peak);
        if (cases[i].least == 0 ? status != DRV_E_USAGE
                                : peak < cases[i].least || peak > cases[i].most)
            fail_msg("\"%s\": status %d, %g FLOP/s", cases[i].said, status, peak);
    }
    backend_close(b);
}

TEST(every_call_of_null) {
    backend *b;
    double bytes = 1, flops = 1;
    b = backend_open_planner(a, false);
    assert_false(backend_times_nodes(b));
    OK(backend_peak(b, DT_BF16, 2, &flops));
    assert_true(flops == 0);
    OK(backend_memory_rate(b, 2, &bytes));
    assert_true(bytes == 0);
    assert_false(backend_times_products(b));
    assert_non_null(backend_arithmetic(b));
    OK(backend_prepare(b));
    OK(backend_run(b, NULL));
    backend_close(b);
}

TEST(cpu_says_how_it_multiplies) {
    static const struct {
        const char *level, *gemm, *want;
    } cases[] = {{"ref", NULL, "kernels ref, bf16 products by fp32"},
            {"plain", "amx_emulated", "kernels plain, bf16 products by AMX in plain C"},
            {"plain", "fp32", "kernels plain, bf16 products by fp32"},
            {"avx2", "fp32", "kernels avx2, bf16 products by fp32"},
            {"avx512", "amx_emulated", "kernels avx512, bf16 products by AMX in plain C"},
            {"avx512_bf16", "bf16", "kernels avx512_bf16, bf16 products by bf16 dot product"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        backend *b;
        if (i > (size_t)cpu_detect() + 1) break; // one level has two cases
        setenv("DROVER_CPU", cases[i].level, 1);
        if (cases[i].gemm) setenv("DROVER_GEMM", cases[i].gemm, 1);
        OK(backend_open_host(a, &b));
        assert_string_equal(backend_arithmetic(b), cases[i].want);
        assert_string_equal(backend_describe(b).kernels, cases[i].level);
        assert_true(backend_times_products(b));
        backend_close(b);
        unsetenv("DROVER_CPU");
        unsetenv("DROVER_GEMM");
    }
}

// Left to itself the bf16 dot product is used where its maker runs it faster than fp32: by the
// vendor that the processor states, here read from the kernel's list.
TEST(rule_of_the_vendor) {
    char text[4096] = "";
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (cpu_detect() < CPU_AVX512_BF16 || cpu_has_amx_bf16() || !f) {
        if (f) fclose(f);
        skip();
    }
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    backend *device;
    OK(backend_open_host(a, &device));
    assert_string_equal(backend_arithmetic(device),
            strstr(text, "GenuineIntel")
                    ? "kernels avx512_bf16, bf16 products by fp32"
                    : "kernels avx512_bf16, bf16 products by bf16 dot product");
    backend_close(device);
}

TEST(memory_that_is_refused) {
#ifdef __SANITIZE_ADDRESS__
    skip(); // its shadow memory lives beyond any limit
#endif
    backend *device;
    executable *e;
    OK(backend_open_host(a, &device));
    OK(backend_compile(a, device, product_graph(a, 64), NULL, &e));
    struct rlimit before, small = {.rlim_cur = (rlim_t)1 << 30};
    getrlimit(RLIMIT_AS, &before);
    small.rlim_max = before.rlim_max;
    graph *g = graph_new(a, "large");
    graph_state(g, TENSOR_INPUT, "large", DT_F32, 2, (int64_t[]){1 << 20, 1 << 10});
    setrlimit(RLIMIT_AS, &small);
    const drv_status status = backend_compile(a, device, g, NULL, &e);
    setrlimit(RLIMIT_AS, &before);
    assert_int_equal(status, DRV_E_DEVICE);
    static const char *const says[] = {"4.00 GiB wanted", "weights, gradients and optimizer",
            "32.00 KiB held"};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(drv_message(), says[i]))
            fail_msg("\"%s\" does not say \"%s\"", drv_message(), says[i]);
    backend_close(device);
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
