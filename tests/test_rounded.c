// Stochastic rounding: its mean is the number itself; every level of kernels and every way of
// cutting a tensor rounds an element alike; what is not finite stays so.
#include "arrays.h"

#include "ir/rounding.h"

// The mean of 2^16 roundings of x, all residues of 16 bits once each, is x.
TEST(every_residue_once) {
    static const float values[] = {1.0f, 1.001f, -1.003f, 3.14159265f, 1e-20f, -7e-39f, 0x1.FFFFp0f,
            0x1.00FFp10f};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double sum = 0;
        for (uint32_t r = 0; r < 1 << 16; r++)
            sum += (double)bf16_to_f32(f32_to_bf16_by(values[i], r | 0xABCD0000u));
        const double mean = sum / (1 << 16);
        if (mean != (double)values[i])
            fail_msg("the mean of %.9g is %.9g", (double)values[i], mean);
    }
}

TEST(special_values) {
    assert_int_equal(f32_to_bf16_by(INFINITY, 0xFFFF), 0x7F80);
    assert_int_equal(f32_to_bf16_by(-INFINITY, 0xFFFF), 0xFF80);
    assert_true(isnan(bf16_to_f32(f32_to_bf16_by(NAN, 0xFFFF))));
    assert_int_equal(f32_to_bf16_by(3.4e38f, 0xFFFF), 0x7F7F); // the largest, not infinity
    assert_int_equal(f32_to_bf16_by(0.0f, 0xFFFF), 0);
    assert_int_equal(f32_to_bf16_by(-0.0f, 0xFFFF), 0x8000);
}

// The words of a million elements: means of the three 16-bit fields, and of products of any two of
// an element, of neighbours, and of steps that follow each other, within 5 standard deviations of
// those of independent uniform numbers.
TEST(words_are_even) {
    enum { N = 1 << 20, N_FIELDS = 9 };
    const rounding_keys keys = rounding_keys_of(1234, RNG_UPDATE, "model.norm.weight");
    double sum[N_FIELDS] = {0}, product[N_FIELDS][N_FIELDS] = {{0}};
    const rounding now = rounding_of(&keys, 7, 0), next = rounding_of(&keys, 8, 0);
    for (uint32_t e = 0; e < N; e++) {
        const uint32_t word1 = rounding_word1(&now, e), beside = rounding_word1(&now, e + 1),
                       later = rounding_word1(&next, e);
        const uint32_t words[] = {word1, word1 >> 16, rounding_word2(&now, word1), beside,
                beside >> 16, rounding_word2(&now, beside), later, later >> 16,
                rounding_word2(&next, later)};
        for (int i = 0; i < N_FIELDS; i++) {
            sum[i] += (words[i] & 0xFFFF) / 65536.0 - 0.5;
            for (int k = 0; k < i; k++)
                product[i][k] += ((words[i] & 0xFFFF) / 65536.0 - 0.5) *
                                 ((words[k] & 0xFFFF) / 65536.0 - 0.5);
        }
    }
    for (int i = 0; i < N_FIELDS; i++) {
        if (!(fabs(sum[i] / N) < 5 * sqrt(1.0 / 12 / N)))
            fail_msg("field %d: the mean is off by %.3g", i, sum[i] / N);
        for (int k = 0; k < i; k++)
            if (!(fabs(product[i][k] / N) < 5.0 / 12 / sqrt((double)N)))
                fail_msg("fields %d and %d hang together: %.3g", i, k, product[i][k] / N);
    }
}

// --- kernels
typedef struct state {
    array p, m, v, g, copy;
} state;

static state state_new(const adamw_types *types, int64_t n) {
    state s = {array_new(types->p, n, 31, 1, 0), array_new(types->moments, n, 32, 1, 0),
            array_new(types->moments, n, 33, 1, 0), array_new(types->g, n, 34, 1, 0),
            array_new(DT_BF16, n, 35, 1, 0)};
    for (int64_t i = 0; i < n; i++)
        array_put(&s.v, i, fabs(array_at(&s.v, i)) + 0.01);
    return s;
}

static void state_free(state *s) {
    array_free(&s->p), array_free(&s->m), array_free(&s->v), array_free(&s->g);
    array_free(&s->copy);
}

static char *at(const array *x, int64_t i) {
    return (char *)x->p + i * dtype_bytes(x->dt);
}

static const adamw_args args = {.lr = 3e-3,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.1,
        .c1 = 0.1,
        .c2 = 0.05,
        .grad_scale = 0.5};

// Elements [first, end) in one call.
static void update(const kernels *k, const adamw_types *types, const state *s, int64_t first,
        int64_t end) {
    const rounding by = {0x12345678u, 0x9ABCDEF0u, 1000 + (uint32_t)first};
    uint16_t *copy = types->p == DT_F32 ? (uint16_t *)(void *)at(&s->copy, first) : NULL;
    k->adamw_rounded(types, end - first, at(&s->p, first), at(&s->m, first), at(&s->v, first),
            at(&s->g, first), &args, &by, copy);
}

static bool same(const array *x, const array *y) {
    array_guarded("rounded", x);
    return memcmp(x->p, y->p, (size_t)(x->n * dtype_bytes(x->dt))) == 0;
}

static void expect_same(const kernels *k, const char *what, const state *got, const state *want) {
    if (!same(&got->p, &want->p) || !same(&got->m, &want->m) || !same(&got->v, &want->v) ||
            !same(&got->g, &want->g) || !same(&got->copy, &want->copy))
        fail_msg("%s: %s", k->name, what);
}

// One step of double arithmetic and one of fp32 may land on two sides of a threshold, which moves a
// bf16 by one unit in one of 2^8 cases; the rest is the same.
static void expect_near(const kernels *k, const array *got, const array *want) {
    int64_t n_other = 0;
    for (int64_t i = 0; i < got->n; i++) {
        const double a = array_at(got, i), b = array_at(want, i);
        n_other += a != b;
        const double bound =
                got->dt == DT_BF16 ? 0x1p-7 * fmax(fabs(b), 1e-3) : 1e-6 * fmax(fabs(b), 0.1);
        if (!(fabs(a - b) <= bound))
            fail_msg("%s: [%lld] is %.9g, expected %.9g", k->name, (long long)i, a, b);
    }
    if (got->dt == DT_BF16 && n_other * 100 > got->n + 100)
        fail_msg("%s: %lld of %lld differ", k->name, (long long)n_other, (long long)got->n);
}

TEST(levels_and_cuts) {
    static const adamw_types all[] = {{DT_BF16, DT_BF16, DT_BF16}, {DT_BF16, DT_BF16, DT_F32},
            {DT_BF16, DT_F32, DT_F32}, {DT_F32, DT_BF16, DT_BF16}, {DT_F32, DT_BF16, DT_F32},
            {DT_F32, DT_F32, DT_BF16}};
    enum { N = 1009 };
    const kernels *levels[4] = {&kernels_ref};
    const int n_levels = 1 + vector_levels(levels + 1);
    for (size_t t = 0; t < sizeof all / sizeof *all; t++) {
        state want = state_new(&all[t], N);
        update(&kernels_ref, &all[t], &want, 0, N);
        for (int i = 0; i < n_levels; i++) {
            state whole = state_new(&all[t], N), cut = state_new(&all[t], N);
            update(levels[i], &all[t], &whole, 0, N);
            for (int64_t first = 0, n = 1; first < N; first += n, n = n % 37 + 5)
                update(levels[i], &all[t], &cut, first, first + n < N ? first + n : N);
            expect_same(levels[i], "cut in pieces it rounds otherwise", &cut, &whole);
            expect_near(levels[i], &whole.p, &want.p), expect_near(levels[i], &whole.m, &want.m);
            expect_near(levels[i], &whole.v, &want.v);
            state_free(&whole), state_free(&cut);
        }
        state_free(&want);
    }
}

// Sums of gradients: the same bits on every level, which all add once in fp32 (bf16 + fp32 as
// doubles rounds once as well); 1,000 sums of 2^-10 of a unit at 1 arrive, where nearest loses all.
TEST(sums) {
    enum { N = 4099, TIMES = 1000 };
    const kernels *levels[4] = {&kernels_ref};
    const int n_levels = 1 + vector_levels(levels + 1);
    array added = array_new(DT_F32, N, 51, 0, 0), want = array_new(DT_BF16, N, 52, 0, 0);
    const rounding_keys keys = rounding_keys_of(1, RNG_GRADIENT, "w");
    for (int64_t i = 0; i < N; i++)
        array_put(&added, i, 0x1p-10);
    for (int level = 0; level < n_levels; level++) {
        array sum = array_new(DT_BF16, N, 53, 0, 0);
        double mean = 0;
        for (int64_t i = 0; i < N; i++)
            array_put(&sum, i, 1);
        for (uint32_t t = 0; t < TIMES; t++) {
            const rounding by = rounding_of(&keys, t, 0);
            levels[level]->add_rounded(DT_BF16, N, added.p, sum.p, &by);
        }
        array_guarded("sum", &sum);
        if (level == 0) memcpy(want.p, sum.p, N * sizeof(uint16_t));
        assert_memory_equal(want.p, sum.p, N * sizeof(uint16_t));
        for (int64_t i = 0; i < N; i++)
            mean += array_at(&sum, i) / N;
        // Each rounding has a variance of at most 2^-16 here (units of 2^-7): over all, 0.0019.
        if (!(fabs(mean - (1 + TIMES * 0x1p-10)) < 5 * 0.0019))
            fail_msg("%s: sums are %.5f on average, expected %.5f", levels[level]->name, mean,
                    1 + TIMES * 0x1p-10);
        array_free(&sum);
    }
    array_free(&added), array_free(&want);
}

// --- places: rows 2 .. 4 and 5 .. 9 of two parts, of which a rank has 3 of 8 columns
TEST(runs) {
    const uint32_t none = EXTENT_NO_ROW;
    const uint32_t split[N_EXTENT_WORDS] = {3, 8, 4, 0, 0, 2, 1, 2, 3, 4, 2, 5, 5, 6, 7, 8, none},
                   whole[N_EXTENT_WORDS] = {8, 8, 0, 0, 0, 2, 1, 2, 3, 4, 2, 5, 5, 6, 7, 8, none};
    for (int64_t at = 0; at < 6 * 3; at++) {
        const extent_run run = extent_run_at(split, at, 100);
        const int64_t row = at / 3, there = row < 2 ? row + 2 : row - 2 + 5;
        assert_int_equal(run.first, there * 8 + 4 + at % 3);
        assert_int_equal(run.n, 3 - at % 3);
        assert_int_equal(run.part[PART_UPDATE], row < 2 ? 1 : 5);
    }
    assert_int_equal(extent_run_at(whole, 3, 100).n, 13); // to the end of the part
    assert_int_equal(extent_run_at(whole, 3, 10).n, 10);
    assert_int_equal(extent_run_at(whole, 17, 100).n, 100);
    assert_int_equal(extent_run_at(whole, 17, 100).first, 5 * 8 + 1);
}
