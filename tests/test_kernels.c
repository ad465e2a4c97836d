// Each kernel of each level against the reference: exactly where small integers leave nothing to
// round, else within a derived bound. Lengths around the vector widths; guard bytes on both sides
// of every output. GEMM, attention and AdamW have tests of their own.
#include "arrays.h"

#include "base/exact_sum.h"

typedef struct kernel_case {
    const kernels *k;
    dtype dt;
    int64_t n; // length, or width of a row
    uint64_t seed;
} kernel_case;

static const char *text_of(const kernel_case *c, const char *what) {
    static char text[160];
    snprintf(text, sizeof text, "%s %s of %s, length %lld, seed %d", c->k->name, what,
            dtype_name(c->dt), (long long)c->n, (int)c->seed);
    return text;
}

// One unit in the last place of the output type, and some roundings of fp32 inside.
static double ulp(dtype dt) {
    return dt == DT_BF16 ? 0x1p-8 : 16 * 0x1p-24;
}

static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 67, 127, 129};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

// All levels, both types, lengths from `min` on.
static void every_case(void (*check)(const kernel_case *), int64_t min) {
    const kernels *levels[3];
    const int n = vector_levels(levels) * 2 * N_LENGTHS;
    for (int i = 0; i < n; i++) {
        const kernel_case c = {levels[i / N_LENGTHS / 2], i / N_LENGTHS % 2 ? DT_BF16 : DT_F32,
                lengths[i % N_LENGTHS], (uint64_t)(100 + i)};
        if (c.n >= min) check(&c);
    }
}

// An output of the kernel and one of the reference.
typedef struct outputs {
    array got, want;
} outputs;

static outputs outputs_new(dtype dt, int64_t n, uint64_t seed) {
    return (outputs){array_new(dt, n, seed, 4, 0.25), array_new(dt, n, seed, 4, 0.25)};
}

// Compares and frees.
static void outputs_agree(const kernel_case *c, const char *what, outputs *x, double bound) {
    array_expect(text_of(c, what), &x->got, &x->want, bound);
    array_free(&x->got), array_free(&x->want);
}

static void check_add(const kernel_case *c) {
    array a = array_new(c->dt, c->n, c->seed, 8, 1), b = array_new(c->dt, c->n, c->seed + 1, 8, 1);
    outputs y = outputs_new(c->dt, c->n, c->seed);
    c->k->add(c->dt, c->n, a.p, b.p, y.got.p);
    kernels_ref.add(c->dt, c->n, a.p, b.p, y.want.p);
    array_expect(text_of(c, "add"), &y.got, &y.want, 0);
    c->k->add(c->dt, c->n, a.p, b.p, b.p);
    array_expect(text_of(c, "add in place"), &b, &y.want, 0);
    outputs_agree(c, "add", &y, 0);
    array_free(&a), array_free(&b);
}

static void check_accumulate(const kernel_case *c) {
    array x = array_new(c->dt, c->n, c->seed, 8, 1);
    outputs acc = outputs_new(DT_F32, c->n, c->seed + 1);
    c->k->accumulate(c->dt, c->n, x.p, acc.got.p);
    kernels_ref.accumulate(c->dt, c->n, x.p, acc.want.p);
    outputs_agree(c, "accumulate", &acc, 0);
    array_free(&x);
}

static void check_narrow(const kernel_case *c) {
    for (int adds = 0; adds < 2; adds++) {
        array x = array_new(DT_F32, c->n, c->seed, 8, 0), old = array_new(c->dt, c->n, 3, 4, 0.25);
        outputs y = outputs_new(c->dt, c->n, c->seed);
        if (c->n > 2) array_put(&x, 2, -0.0);
        c->k->narrow(c->dt, c->n, x.p, adds ? old.p : NULL, y.got.p);
        kernels_ref.narrow(c->dt, c->n, x.p, adds ? old.p : NULL, y.want.p);
        if (c->n > 2 && !adds) assert_true(signbit(array_at(&y.got, 2)));
        outputs_agree(c, "narrow", &y, adds ? ulp(c->dt) : 0);
        array_free(&x), array_free(&old);
    }
}

// Numbers of sizes near each other, and of all that a float has, denormal ones and -0 included. For
// every fifth seed remainders of one sign, as large as they can be, beside one large number.
static array numbers_to_square(const kernel_case *c, int64_t n) {
    static const int spread[] = {0, 3, 15, 30, 118}; // by the exponent, down and up
    const int seed = (int)(c->seed % 5);
    array all = array_new(c->dt, n, c->seed, 1e3, 0);
    for (int64_t i = 0; i < n; i++) {
        const int exponent = (int)(spread[seed] * noise(c->seed + 1, (uint64_t)i)) - 20;
        array_put(&all, i, i % 17 == 3 ? -0.0 : ldexp(array_at(&all, i), exponent));
        if (seed == 0)
            array_put(&all, i, i ? 0x1.6a09e4p0 - 1e-3 * fabs(noise(7, (uint64_t)i)) : 0x1p20);
    }
    return all;
}

// Every bit of every square is there.
static void check_squares_of(const kernel_case *c, int64_t count) {
    array x = numbers_to_square(c, count);
    exact_sum got = {.n_since = 0}, want = got;
    double sums[SQUARES_SUMS];
    const int n_sums = c->k->squares(c->dt, count, x.p, sums);
    assert_true(n_sums <= SQUARES_SUMS);
    for (int i = 0; i < n_sums; i++)
        exact_add(&got, sums[i]);
    for (int64_t i = 0; i < count; i++)
        exact_add(&want, array_at(&x, i) * array_at(&x, i));
    array_free(&x);
    exact_settle(&got);
    exact_settle(&want);
    for (int l = 0; l < EXACT_LIMBS; l++)
        if (got.limb[l] != want.limb[l])
            fail_msg("%s: limb %d is %.0f, expected %.0f", text_of(c, "squares"), l, got.limb[l],
                    want.limb[l]);
}

static void check_squares(const kernel_case *c) {
    check_squares_of(c, c->n);
    check_squares_of(c, SQUARES_MOST);
}

TEST(squares_that_are_not_finite) {
    const kernels *levels[3];
    for (int l = vector_levels(levels); l-- > 0;)
        for (int i = 0; i < 20; i++) {
            float x[20];
            for (int k = 0; k < 20; k++)
                x[k] = k == i ? (i % 2 ? (float)NAN : -HUGE_VALF) : 1e30F;
            double sums[SQUARES_SUMS];
            assert_int_equal(levels[l]->squares(DT_F32, 20, x, sums), 1);
            if (isfinite(sums[0])) fail_msg("element %d: %g", i, sums[0]);
        }
}

// Rows as they begin anywhere in a group of random words; the factor is a power of two, so nothing
// is rounded. In place, and in two pieces.
static void check_dropout(const kernel_case *c) {
    const dropout_args args = {{c->seed << 33 | 5, RNG_DROPOUT, (uint64_t)3 << 32 | 7}, 77, 0.5};
    const int64_t first = (int64_t)c->seed % 130, half = c->n / 2;
    array x = array_new(c->dt, c->n, c->seed, 8, 1);
    outputs y = outputs_new(c->dt, c->n, c->seed);
    c->k->dropout(c->dt, &args, first, c->n, x.p, y.got.p);
    kernels_ref.dropout(c->dt, &args, first, c->n, x.p, y.want.p);
    array_expect(text_of(c, "dropout"), &y.got, &y.want, 0);
    char *rest = (char *)x.p + half * dtype_bytes(c->dt);
    c->k->dropout(c->dt, &args, first, half, x.p, x.p);
    c->k->dropout(c->dt, &args, first + half, c->n - half, rest, rest);
    array_expect(text_of(c, "dropout in place"), &x, &y.want, 0);
    outputs_agree(c, "dropout", &y, 0);
    array_free(&x);
}

TEST(dropped_elements) {
    every_case(check_dropout, 0);
}

// The share that is dropped, and that seed, row, site and element each give another mask. 10,000
// draws: the standard deviation of the share is 0.5 %.
TEST(dropped_share) {
    enum { N = 10000 };
    static const struct {
        uint64_t seed, row, site;
        int64_t first;
    } cases[] = {{1, 2, 3, 0}, {2, 2, 3, 0}, {1, 3, 3, 0}, {1, 2, 4, 0}, {1, 2, 3, 1}};
    static float y[5][N], ones[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    for (int c = 0; c < 5; c++) {
        const dropout_args args = {{cases[c].seed, RNG_DROPOUT, cases[c].row}, cases[c].site, 0.4};
        kernels_ref.dropout(DT_F32, &args, cases[c].first, N, ones, y[c]);
        int dropped = 0, same = 0;
        for (int i = 0; i < N; i++) {
            dropped += y[c][i] == 0;
            same += y[c][i] == y[0][i];
        }
        assert_true(dropped >= 3800 && dropped <= 4200);
        if (c > 0) assert_true(same >= 5000 && same <= 5400); // 0.4^2 + 0.6^2 by chance
    }
}

TEST(sums_without_rounding) {
    every_case(check_add, 0);
    every_case(check_accumulate, 0);
    every_case(check_narrow, 0);
    every_case(check_squares, 0);
}

enum { ROWS = 5 };

static void check_rmsnorm(const kernel_case *c) {
    const int64_t n = ROWS * c->n;
    array x = array_new(c->dt, n, c->seed, 1, 0), d = array_new(c->dt, n, c->seed + 1, 1, 0),
          w = array_new(DT_F32, c->n, c->seed + 2, 1, 0);
    outputs h = outputs_new(c->dt, n, 4), y = outputs_new(c->dt, n, 5),
            r = outputs_new(DT_F32, ROWS, 6);
    c->k->rmsnorm(c->dt, ROWS, c->n, x.p, d.p, w.p, 1e-5, h.got.p, y.got.p, r.got.p);
    kernels_ref.rmsnorm(c->dt, ROWS, c->n, x.p, d.p, w.p, 1e-5, h.want.p, y.want.p, r.want.p);
    outputs_agree(c, "rmsnorm's h", &h, ulp(c->dt));
    outputs_agree(c, "rmsnorm's y", &y, 2 * ulp(c->dt)); // h may differ by one rounding
    outputs_agree(c, "rmsnorm's r", &r, c->dt == DT_BF16 ? 0x1p-8 : 1e-5);
    y = outputs_new(c->dt, n, 5), r = outputs_new(DT_F32, ROWS, 6);
    c->k->rmsnorm(c->dt, ROWS, c->n, x.p, NULL, w.p, 1e-5, NULL, y.got.p, r.got.p);
    kernels_ref.rmsnorm(c->dt, ROWS, c->n, x.p, NULL, w.p, 1e-5, NULL, y.want.p, r.want.p);
    outputs_agree(c, "rmsnorm's y without d", &y, 2 * ulp(c->dt));
    outputs_agree(c, "rmsnorm's r without d", &r, 1e-5);
    array_free(&x), array_free(&d), array_free(&w);
}

// With the gradient of h or without, and in place of dy.
static void check_rmsnorm_grad(const kernel_case *c) {
    const int64_t n = ROWS * c->n;
    array x = array_new(c->dt, n, c->seed, 1, 0), dh = array_new(c->dt, n, c->seed + 1, 1, 0),
          w = array_new(DT_F32, c->n, c->seed + 2, 1, 0), r = array_new(DT_F32, ROWS, 7, 1, 0);
    outputs dx = outputs_new(c->dt, n, 4), dw = outputs_new(DT_F32, c->n, 5);
    array dy = array_new(c->dt, n, c->seed + 3, 1, 0);
    c->k->rmsnorm_grad(c->dt, ROWS, c->n, dy.p, x.p, w.p, r.p, NULL, dx.got.p, dw.got.p);
    kernels_ref.rmsnorm_grad(c->dt, ROWS, c->n, dy.p, x.p, w.p, r.p, NULL, dx.want.p, dw.want.p);
    array_expect(text_of(c, "rmsnorm_grad's dx"), &dx.got, &dx.want, 4 * ulp(c->dt));
    kernels_ref.rmsnorm_grad(c->dt, ROWS, c->n, dy.p, x.p, w.p, r.p, dh.p, dx.want.p, dw.want.p);
    c->k->rmsnorm_grad(c->dt, ROWS, c->n, dy.p, x.p, w.p, r.p, dh.p, dy.p, dw.got.p);
    array_expect(text_of(c, "rmsnorm_grad's dx in place"), &dy, &dx.want, 4 * ulp(c->dt));
    outputs_agree(c, "rmsnorm_grad's dw", &dw, 1e-5);
    array frozen = array_new(c->dt, n, c->seed + 3, 1, 0);
    c->k->rmsnorm_grad(c->dt, ROWS, c->n, frozen.p, x.p, w.p, r.p, dh.p, frozen.p, NULL);
    array_expect(text_of(c, "rmsnorm_grad's dx of a frozen w"), &frozen, &dx.want, 4 * ulp(c->dt));
    array_free(&frozen);
    array_free(&dx.got), array_free(&dx.want);
    array_free(&x), array_free(&dh), array_free(&w), array_free(&r), array_free(&dy);
}

TEST(norms) {
    every_case(check_rmsnorm, 1);
    every_case(check_rmsnorm_grad, 1);
}

// The length is half a head. Two heads turn, a third and two odd elements are copied; turning back
// gives what was there.
static void check_rope(const kernel_case *c) {
    const int head_dim = (int)(2 * c->n);
    const int64_t width = 3 * head_dim + 2, n = ROWS * width;
    const int32_t position[ROWS] = {0, 1, 2, 1000, 100000};
    const rope_args args = {.head_dim = head_dim, .theta = 1e4};
    array x = array_new(c->dt, n, c->seed, 1, 0),
          table = array_new(DT_F32, ROWS * head_dim, 5, 1, 0);
    c->k->rope_table(c->dt, &args, ROWS, position, table.p);
    array_guarded(text_of(c, "rope_table"), &table);
    outputs y = outputs_new(c->dt, n, 4);
    c->k->rope(c->dt, ROWS, width, 2, head_dim, x.p, table.p, false, y.got.p);
    kernels_ref.rope(c->dt, ROWS, width, 2, head_dim, x.p, table.p, false, y.want.p);
    array_expect(text_of(c, "rope"), &y.got, &y.want, ulp(c->dt));
    c->k->rope(c->dt, ROWS, width, 2, head_dim, y.got.p, table.p, true, y.got.p);
    array_expect(text_of(c, "rope there and back"), &y.got, &x, 4 * ulp(c->dt));
    array_free(&x), array_free(&table), array_free(&y.got), array_free(&y.want);
}

static void check_swiglu(const kernel_case *c) {
    const int64_t n = ROWS * c->n;
    array gate_up = array_new(c->dt, 2 * n, c->seed, 12, 0), dy = array_new(c->dt, n, 2, 1, 0);
    outputs y = outputs_new(c->dt, n, 4), d = outputs_new(c->dt, 2 * n, 5);
    c->k->swiglu(c->dt, ROWS, c->n, gate_up.p, y.got.p);
    kernels_ref.swiglu(c->dt, ROWS, c->n, gate_up.p, y.want.p);
    outputs_agree(c, "swiglu", &y, ulp(c->dt));
    c->k->swiglu_grad(c->dt, ROWS, c->n, dy.p, gate_up.p, d.got.p);
    kernels_ref.swiglu_grad(c->dt, ROWS, c->n, dy.p, gate_up.p, d.want.p);
    array_expect(text_of(c, "swiglu_grad"), &d.got, &d.want, ulp(c->dt));
    c->k->swiglu_grad(c->dt, ROWS, c->n, dy.p, gate_up.p, gate_up.p);
    array_expect(text_of(c, "swiglu_grad in place"), &gate_up, &d.want, ulp(c->dt));
    array_free(&gate_up), array_free(&dy), array_free(&d.got), array_free(&d.want);
}

TEST(activations) {
    every_case(check_rope, 1);
    every_case(check_swiglu, 0);
}

// The gradient takes the place of the logits, or is not asked for.
static void check_cross_entropy(const kernel_case *c) {
    outputs logits = {array_new(DT_F32, c->n, c->seed, 20, 0),
            array_new(DT_F32, c->n, c->seed, 20, 0)};
    array again = array_copy(&logits.got);
    const int64_t label = (int64_t)c->seed % c->n;
    const double got = c->k->cross_entropy(c->dt, c->n, logits.got.p, label, 0.5, logits.got.p);
    const double want =
            kernels_ref.cross_entropy(c->dt, c->n, logits.want.p, label, 0.5, logits.want.p);
    const double alone = c->k->cross_entropy(c->dt, c->n, again.p, label, 0.5, NULL);
    if (!(fabs(got - want) <= 1e-5 * fmax(1, want)) || alone != got)
        fail_msg("%s: %.9g, without gradient %.9g, expected %.9g", text_of(c, "cross_entropy"), got,
                alone, want);
    array_guarded(text_of(c, "cross_entropy"), &logits.got);
    logits.got.dt = logits.want.dt = c->dt; // the gradient
    for (int64_t i = 0; i < c->n; i++)
        if (!(fabs(array_at(&logits.got, i) - array_at(&logits.want, i)) <= ulp(c->dt)))
            fail_msg("%s: gradient %lld is %.9g, expected %.9g", text_of(c, "cross_entropy"),
                    (long long)i, array_at(&logits.got, i), array_at(&logits.want, i));
    array_free(&logits.got), array_free(&logits.want), array_free(&again);
}

// The halves of the loss: exponentials in place of the row, then the row in another type in place.
static void check_exponents(const kernel_case *c) {
    outputs row = {array_new(DT_F32, c->n, c->seed, 20, 0),
            array_new(DT_F32, c->n, c->seed, 20, 0)};
    double max, want_max;
    const double got = c->k->exponents(c->dt, c->n, row.got.p, &max),
                 want = kernels_ref.exponents(c->dt, c->n, row.want.p, &want_max);
    if (!(fabs(got - want) <= 1e-5 * want) || max != want_max)
        fail_msg("%s: sum %.9g of exponentials below %.9g, expected %.9g, %.9g",
                text_of(c, "exponents"), got, max, want, want_max);
    outputs_agree(c, "exponents", &row, 4 * ulp(DT_F32));
}

static void check_scaled(const kernel_case *c) {
    outputs row = {array_new(DT_F32, c->n, c->seed, 20, 0),
            array_new(DT_F32, c->n, c->seed, 20, 0)};
    c->k->scaled(c->dt, c->n, row.got.p, 0.375, row.got.p);
    kernels_ref.scaled(c->dt, c->n, row.want.p, 0.375, row.want.p);
    array_guarded(text_of(c, "scaled"), &row.got);
    row.got.dt = row.want.dt = c->dt;
    for (int64_t i = 0; i < c->n; i++)
        if (array_at(&row.got, i) != array_at(&row.want, i))
            fail_msg("%s: element %lld is %.9g, expected %.9g", text_of(c, "scaled"), (long long)i,
                    array_at(&row.got, i), array_at(&row.want, i));
    array_free(&row.got), array_free(&row.want);
}

TEST(losses) {
    every_case(check_cross_entropy, 1);
    every_case(check_exponents, 1);
    every_case(check_scaled, 1);
}

static void check_row_times_matrix(const kernel_case *c, int64_t n_rows) {
    array x = array_new(c->dt, c->n, c->seed, 1, 0),
          w = array_new(c->dt, n_rows * c->n, c->seed + 1, 1, 0);
    outputs y = outputs_new(c->dt, n_rows, 5);
    c->k->row_times_matrix(c->dt, n_rows, c->n, x.p, w.p, y.got.p);
    kernels_ref.row_times_matrix(c->dt, n_rows, c->n, x.p, w.p, y.want.p);
    outputs_agree(c, "row_times_matrix", &y, 8 * ulp(c->dt)); // up to 129 products below 1
    array_free(&x), array_free(&w);
}

static void check_generation(const kernel_case *c) {
    static const int64_t rows[] = {1, 3, 4, 5, 15, 16, 17, 64, 131};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row_times_matrix(c, rows[i]);
}

TEST(generation) {
    every_case(check_generation, 1);
}

// Token 2 of 5 sees three keys, each with a score of NaN, and hidden ones beside them.
static void nan_of_a_query(const kernels *level) {
    enum { TOKENS = 5, DIM = 4, WIDTH = 3 * DIM };
    float qkv[TOKENS * WIDTH], out[TOKENS * DIM] = {0}, lse[TOKENS] = {0};
    int32_t position[TOKENS];
    for (int i = 0; i < TOKENS * WIDTH; i++)
        qkv[i] = i == 2 * WIDTH + 1 ? NAN : (float)noise(1, (uint64_t)i);
    for (int t = 0; t < TOKENS; t++)
        position[t] = t;
    const attention_args args = {.dt = DT_F32,
            .seq = TOKENS,
            .n_heads = 1,
            .n_kv_heads = 1,
            .head_dim = DIM,
            .qkv = qkv,
            .position = position,
            .o = out,
            .lse = lse,
            .lse_stride = TOKENS};
    void *scratch = malloc((size_t)attention_scratch_bytes(&args));
    level->attention(&args, 0, scratch);
    for (int t = 0; t < TOKENS; t++)
        if (!isnan(out[t * DIM]) != (t != 2) || !isnan(lse[t]) != (t != 2))
            fail_msg("%s: token %d has %g, lse %g", level->name, t, (double)out[t * DIM],
                    (double)lse[t]);
    free(scratch);
}

TEST(nan_is_not_lost) {
    const kernels *levels[3];
    for (int i = 0, n = vector_levels(levels); i < n; i++) {
        float row[] = {NAN, 1, 2}, gate_up[] = {NAN, 1}, y = 0;
        assert_true(isnan(levels[i]->cross_entropy(DT_F32, 3, row, 1, 1, row)));
        levels[i]->swiglu(DT_F32, 1, 1, gate_up, &y);
        assert_true(isnan(y));
    }
    for (int i = 0, n = vector_levels(levels); i <= n; i++)
        nan_of_a_query(i < n ? levels[i] : &kernels_ref);
}
