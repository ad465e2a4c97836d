// Rounding to fp8 against the formats' own tables of numbers, scales, and products whose operands
// are looked up in the tables.
#include "harness.h"

#include <math.h>

#include "ir/op.h"
#include "kernels/kernels.h"

// --- the formats, by their 256 codes (OCP 8-bit Floating Point Specification, tables 1 and 2)
typedef struct table {
    double number[128]; // that are not negative, ascending; by code
    int n;              // of them finite
} table;

static table table_of(int exponent_bits, int fraction_bits, int bias, int n) {
    table t = {.n = n};
    for (int code = 0; code < n; code++) {
        const int exponent = code >> fraction_bits, fraction = code & ((1 << fraction_bits) - 1);
        assert_true(exponent < 1 << exponent_bits);
        t.number[code] = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                       : ldexp((1 << fraction_bits) + fraction,
                                                 exponent - bias - fraction_bits);
    }
    return t;
}

// e4m3 has a NaN and no infinity in its last exponent; e5m2 has neither numbers there.
static table e4m3(void) {
    return table_of(4, 3, 7, 127);
}
static table e5m2(void) {
    return table_of(5, 2, 15, 124);
}

// The nearest number; of two that are as near the one with the even code.
static double nearest(const table *t, double x) {
    int best = 0;
    for (int code = 1; code < t->n; code++) {
        const double d = fabs(fabs(x) - t->number[code]), least = fabs(fabs(x) - t->number[best]);
        if (d < least || (d == least && code % 2 == 0)) best = code;
    }
    return copysign(t->number[best], x);
}

TEST(the_largest_numbers) {
    const table t4 = e4m3(), t5 = e5m2();
    assert_true(t4.number[t4.n - 1] == 448 && t5.number[t5.n - 1] == 57344);
    assert_true(t4.number[1] == 0x1p-9 && t5.number[1] == 0x1p-16);
}

// All bf16 numbers within the format, unscaled.
static void every_bf16(const kernels *k, const fp8_format *to, const table *t) {
    static uint16_t x[1 << 16], y[1 << 16];
    int n = 0;
    for (int bits = 0; bits < 1 << 16; bits++)
        if (fabsf(bf16_to_f32((uint16_t)bits)) <= (float)t->number[t->n - 1])
            x[n++] = (uint16_t)bits;
    assert_true(n > 30000);
    k->round_fp8(DT_BF16, to, n, 0, x, y);
    for (int i = 0; i < n; i++) {
        const double v = (double)bf16_to_f32(x[i]), want = nearest(t, v);
        if ((double)bf16_to_f32(y[i]) != want)
            fail_msg("%s: %.9g became %.9g, expected %.9g", k->name, v, (double)bf16_to_f32(y[i]),
                    want);
    }
}

TEST(all_levels_round_to_the_nearest) {
    const table t4 = e4m3(), t5 = e5m2();
    for (cpu_level level = CPU_REF; level <= cpu_detect(); level++) {
        every_bf16(kernels_for(level), &fp8_e4m3, &t4);
        every_bf16(kernels_for(level), &fp8_e5m2, &t5);
    }
}

// fp32 numbers with all their bits, scaled.
TEST(scaled_fp32) {
    enum { N = 4099 };
    static float x[N], y[N];
    const table t = e5m2();
    for (int i = 0; i < N; i++)
        x[i] = (float)ldexp(noise(1, (uint64_t)i), i % 30 - 25);
    for (cpu_level level = CPU_REF; level <= cpu_detect(); level++) {
        kernels_for(level)->round_fp8(DT_F32, &fp8_e5m2, N, 9, x, y);
        for (int i = 0; i < N; i++)
            assert_true((double)y[i] == ldexp(nearest(&t, ldexp((double)x[i], 9)), -9));
    }
}

TEST(scales_fill_the_range) {
    const fp8_format *formats[] = {&fp8_e4m3, &fp8_e5m2};
    const table tables[] = {e4m3(), e5m2()};
    for (int f = 0; f < 2; f++) {
        const double most = tables[f].number[tables[f].n - 1];
        for (int i = 0; i < 2000; i++) {
            const double x = ldexp(1 + (noise(2, (uint64_t)i) + 1) / 2, i % 180 - 80);
            const int scale = fp8_scale_exponent(formats[f], x);
            if (ldexp(x, scale) > most || ldexp(x, scale + 1) <= most)
                fail_msg("%.9g with scale 2^%d", x, scale);
        }
        assert_int_equal(fp8_scale_exponent(formats[f], most), 0);
        assert_int_equal(fp8_scale_exponent(formats[f], 0), FP8_MAX_SCALE_EXPONENT);
        assert_int_equal(fp8_scale_exponent(formats[f], 0x1p-140), FP8_MAX_SCALE_EXPONENT);
        assert_int_equal(fp8_scale_exponent(formats[f], (double)INFINITY), 0);
    }
}

TEST(magnitudes) {
    float x[100];
    uint16_t narrow[100];
    for (int i = 0; i < 100; i++) {
        x[i] = (float)noise(3, (uint64_t)i);
        narrow[i] = f32_to_bf16(x[i]);
    }
    x[71] = -3, narrow[71] = f32_to_bf16(-3);
    for (cpu_level level = CPU_REF; level <= cpu_detect(); level++) {
        const kernels *k = kernels_for(level);
        assert_true(k->magnitude(DT_F32, 100, x) == 3 && k->magnitude(DT_BF16, 100, narrow) == 3);
        assert_true(k->magnitude(DT_F32, 71, x) <= 1);
        x[5] = INFINITY;
        assert_true(isfinite(k->magnitude(DT_F32, 100, x)) == 0);
        x[5] = NAN;
        assert_true(isfinite(k->magnitude(DT_F32, 100, x)) == 0);
        x[5] = 0;
    }
}

// --- products
typedef struct product {
    arena *a;
    backend *b;
    graph *g;
    tensor *x, *w, *y;
} product;

static product product_new(int m, int n, int k, fp8_use use) {
    product p = {.a = arena_new("product")};
    OK(backend_open_host(p.a, &p.b));
    p.g = graph_new(p.a, "product");
    p.x = graph_state(p.g, TENSOR_INPUT, "x", DT_BF16, 2, (int64_t[]){m, k});
    p.w = graph_state(p.g, TENSOR_INPUT, "w", DT_BF16, 2, (int64_t[]){n, k});
    tensor *in[] = {p.x, p.w};
    p.y = graph_add(p.g, OP_matmul, 2, in, &(op_attrs){.matmul.tb = 1, .matmul.fp8 = (int)use})
                  ->out[0];
    graph_output(p.g, p.y, "y");
    return p;
}

// A tensor whose numbers span 2^-14 .. 1 times its largest one, and what is left of them in fp8.
static double *fill(const product *p, const tensor *t, uint64_t seed, const table *by) {
    const int64_t n = tensor_elements(t);
    double *rounded = ARENA_ARRAY(p->a, double, n), largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)ldexp(noise(seed, (uint64_t)i), -(int)(i % 15));
        rounded[i] = (double)bf16_to_f32(f32_to_bf16(v));
        element_write(p->b, t, i, rounded[i]);
        largest = fmax(largest, fabs(rounded[i]));
    }
    int scale = 0;
    while (ldexp(largest, scale + 1) <= by->number[by->n - 1])
        scale++;
    for (int64_t i = 0; i < n; i++)
        rounded[i] = ldexp(nearest(by, ldexp(rounded[i], scale)), -scale);
    return rounded;
}

// The largest number is found in another chunk and row than the first: 40,000 elements.
static void compare_product(fp8_use use, const table *first) {
    enum { M = 40, N = 24, K = 1000 };
    executable *program;
    const table t4 = e4m3();
    product p = product_new(M, N, K, use);
    OK(backend_compile(p.a, p.b, p.g, NULL, &program));
    OK(backend_prepare(p.b));
    const double *x = fill(&p, p.x, 7, first), *w = fill(&p, p.w, 8, &t4);
    OK(backend_run(p.b, program));
    double error = 0, size = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double want = 0;
            for (int k = 0; k < K; k++)
                want += x[i * K + k] * w[j * K + k];
            const double d = element_read(p.b, p.y, i * N + j) - want;
            error += d * d, size += want * want;
        }
    if (!(sqrt(error / size) < 0x1p-8)) // what is left is the rounding of the result
        fail_msg("relative error %.3g", sqrt(error / size));
    backend_close(p.b);
    arena_free(p.a);
}

TEST(products_of_rounded_operands) {
    const table t4 = e4m3(), t5 = e5m2();
    compare_product(FP8_FORWARD, &t4);
    compare_product(FP8_GRADIENT, &t5);
}
