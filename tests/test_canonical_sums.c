// Sums whose bits may not depend on who adds what (design D7), on numbers that sums are tripped by:
// -0, denormals, the largest beside the smallest, infinities, NaN. Trees (comm/join.h, reduction
// blocks of products) against a tree of our own; exact sums (base/exact_sum.h, kernels.squares), in
// any order, against a row of bits that is added to as on paper.
#include "arrays.h"

#include <float.h>

#include "backend/cpu/gemm.h"
#include "base/exact_sum.h"
#include "comm/join.h"

// --- numbers
static const float odd[] = {0, -0.0F, FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MIN, -3 * FLT_TRUE_MIN,
        FLT_MAX, -FLT_MAX, 1, -1, 0x1p-24F, 1e30F, -1e-30F, HUGE_VALF, -HUGE_VALF, (float)NAN};
enum { N_ODD = sizeof odd / sizeof *odd, N_FINITE = N_ODD - 3 };

// Every third one is odd, of the first `n` kinds; the others are of all sizes, and so rounded.
static float number(uint64_t seed, uint64_t i, int n) {
    const uint64_t pick = (uint64_t)((noise(seed, i) + 1) * 0x1p20);
    if (pick % 3 == 0) return odd[pick / 3 % (uint64_t)n];
    return (float)ldexp(noise(seed + 1, i), (int)(pick % 40) - 20);
}

static bool same_number(float a, float b) {
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

// --- trees: halved at the largest power of two below n
static float tree_of(const float *x, int n) {
    int half = 1;
    if (n == 1) return *x;
    while (2 * half < n)
        half *= 2;
    return tree_of(x, half) + tree_of(x + half, n - half);
}

enum { MAX_JOINED = 33, LONG = 1300 }; // elements: three blocks of join.c

typedef struct join_case {
    dtype dt;
    int n_parts, kinds;
    array part[MAX_JOINED], sum;
    const void *at[MAX_JOINED];
} join_case;

static join_case join_case_new(dtype dt, int n_parts, int kinds) {
    join_case c = {.dt = dt,
            .n_parts = n_parts,
            .kinds = kinds,
            .sum = array_new(dt, LONG, 0, 1, 0)};
    for (int p = 0; p < n_parts; p++) {
        c.part[p] = array_new(dt, LONG, 0, 1, 0);
        c.at[p] = c.part[p].p;
        for (int64_t i = 0; i < LONG; i++)
            array_put(&c.part[p], i, (double)number((uint64_t)(100 + p), (uint64_t)i, kinds));
    }
    return c;
}

static void join_case_free(join_case *c) {
    for (int p = 0; p < c->n_parts; p++)
        array_free(&c->part[p]);
    array_free(&c->sum);
}

static float wanted(const join_case *c, int64_t i) {
    float x[MAX_JOINED];
    for (int p = 0; p < c->n_parts; p++)
        x[p] = (float)array_at(&c->part[p], i);
    const float sum = tree_of(x, c->n_parts);
    return c->dt == DT_BF16 ? bf16_to_f32(f32_to_bf16(sum)) : sum;
}

static void expect_sums(const join_case *c, const char *what) {
    array_guarded(what, &c->sum);
    for (int64_t i = 0; i < LONG; i++)
        if (!same_number((float)array_at(&c->sum, i), wanted(c, i)))
            fail_msg("%s, %s, %d parts, element %lld: %a, expected %a", what, dtype_name(c->dt),
                    c->n_parts, (long long)i, array_at(&c->sum, i), (double)wanted(c, i));
}

TEST(parts_are_joined_in_the_tree) {
    for (int n_parts = 1; n_parts <= MAX_JOINED; n_parts++)
        for (int i = 0; i < 4; i++) { // without infinities and NaN as well: they hide the rest
            join_case c =
                    join_case_new(i % 2 ? DT_BF16 : DT_F32, n_parts, i < 2 ? N_FINITE : N_ODD);
            join_parts(c.dt, COMM_SUM, c.at, n_parts, LONG, c.sum.p);
            expect_sums(&c, "sum");
            join_case_free(&c);
        }
}

// Ranks that hold 2^k neighbours join them before; the sum may take the place of a part.
TEST(complete_parts_may_be_joined_before) {
    for (int each = 2; each <= 8; each *= 2)
        for (int n_parts = each; n_parts <= MAX_JOINED; n_parts += 3) {
            join_case c = join_case_new(DT_F32, n_parts, N_FINITE);
            array joined[MAX_JOINED];
            const void *at[MAX_JOINED];
            int n = 0;
            for (int first = 0; first < n_parts; first += each, n++) {
                const int here = n_parts - first < each ? n_parts - first : each;
                joined[n] = array_copy(&c.part[first]);
                at[n] = joined[n].p;
                join_parts(DT_F32, COMM_SUM, c.at + first, here, LONG, joined[n].p);
            }
            join_parts(DT_F32, COMM_SUM, at, n, LONG, joined[n / 2].p);
            memcpy(c.sum.p, joined[n / 2].p, sizeof(float) * LONG);
            expect_sums(&c, "sum of sums");
            while (n-- > 0)
                array_free(&joined[n]);
            join_case_free(&c);
        }
}

// A maximum has the same bits in any order: NaN where there is one, +0 above -0.
static void expect_maximum(join_case *of, const array *want) {
    for (int64_t i = 0; i < LONG; i++) {
        bool any_nan = false;
        for (int p = 0; p < of->n_parts; p++)
            any_nan |= isnan(array_at(&of->part[p], i));
        assert_true(isnan(array_at(want, i)) == any_nan);
        assert_true(same_number((float)array_at(&of->sum, i), (float)array_at(want, i)));
    }
}

TEST(maxima_do_not_know_the_order) {
    enum { N = 7 };
    for (int zeros = 0; zeros < 2; zeros++) {
        join_case of = join_case_new(DT_F32, N, zeros ? 2 : N_ODD);
        array want = array_new(DT_F32, LONG, 0, 1, 0);
        join_parts(DT_F32, COMM_MAX, of.at, N, LONG, want.p);
        for (int turn = 0; turn < 2 * N; turn++) {
            const void *at[N];
            for (int p = 0; p < N; p++)
                at[p] = of.at[turn < N ? (p + turn) % N : (2 * N - 1 - p + turn) % N];
            join_parts(DT_F32, COMM_MAX, at, N, LONG, of.sum.p);
            expect_maximum(&of, &want);
        }
        array_free(&want);
        join_case_free(&of);
    }
}

// --- reduction blocks of a product: each is a product of its own, then the tree
enum { ROWS = 5, COLUMNS = 19, BLOCK = 24 };

typedef struct product {
    arena *mem; // of the machine and of what it makes, which it remembers
    gemm_machine *m;
    array a, b; // [ROWS, k], [k, COLUMNS]
    int blocks;
} product;

static void multiply(const product *x, int64_t first, int64_t k, const gemm_tree *tree, float *c) {
    const gemm_shape s = {.m = ROWS,
            .n = COLUMNS,
            .k = k,
            .lda = (int64_t)x->blocks * BLOCK,
            .ldb = COLUMNS,
            .ldc = COLUMNS,
            .in = DT_F32,
            .out = DT_F32};
    gemm *g;
    OK(gemm_new(x->mem, x->m, &s, tree, &g));
    void *workspace = mem_alloc((size_t)gemm_bytes(g));
    gemm_run(g, (float *)x->a.p + first, (float *)x->b.p + first * COLUMNS, c, workspace,
            gemm_bytes(g));
    free(workspace);
}

static void expect_tree(const product *x) {
    const gemm_tree tree = {.n_blocks = x->blocks, .n_segments = 1, .each = {BLOCK}};
    static float got[ROWS * COLUMNS], block[MAX_JOINED][ROWS * COLUMNS];
    multiply(x, 0, (int64_t)x->blocks * BLOCK, x->blocks > 1 ? &tree : NULL, got);
    for (int i = 0; i < x->blocks; i++)
        multiply(x, (int64_t)i * BLOCK, BLOCK, NULL, block[i]);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        float one[MAX_JOINED];
        for (int k = 0; k < x->blocks; k++)
            one[k] = block[k][i];
        const float want = tree_of(one, x->blocks);
        if (!same_number(got[i], want))
            fail_msg("%d reduction blocks, element %d: %a, expected %a", x->blocks, i,
                    (double)got[i], (double)want);
    }
}

TEST(blocks_of_a_product_are_joined_in_the_tree) {
    product x = {.mem = arena_new("product"), .blocks = 2};
    OK(gemm_machine_open(x.mem, GEMM_FP32, &x.m));
    for (; x.blocks <= 9; x.blocks++)
        for (int kinds = N_FINITE; kinds <= N_ODD; kinds += N_ODD - N_FINITE) {
            x.a = array_new(DT_F32, (int64_t)ROWS * x.blocks * BLOCK, 0, 1, 0);
            x.b = array_new(DT_F32, (int64_t)COLUMNS * x.blocks * BLOCK, 5, 1, 0);
            for (int64_t i = 0; i < x.a.n; i++)
                array_put(&x.a, i, (double)number(9, (uint64_t)i, i % 40 ? N_FINITE - 9 : kinds));
            expect_tree(&x);
            array_free(&x.a), array_free(&x.b);
        }
    gemm_machine_close(x.m);
    arena_free(x.mem);
}

// --- exact sums: bits from 2^-1074 on, each a byte
enum { BITS = 2200, LOWEST = -1074 };
typedef struct on_paper {
    unsigned char bit[BITS];
} on_paper;

static void paper_add(on_paper *sum, double x) {
    int exponent;
    uint64_t digits = (uint64_t)ldexp(frexp(x, &exponent), 53);
    int at = exponent - 53 - LOWEST;
    for (; at < 0; at++) // denormal: the bits that fall out are zero
        digits >>= 1;
    unsigned carry = 0;
    for (; digits || carry; at++, digits >>= 1) {
        const unsigned here = sum->bit[at] + (unsigned)(digits & 1) + carry;
        sum->bit[at] = here & 1;
        carry = here >> 1;
    }
}

// To the nearest of 53 bits, ties to even.
static double paper_value(const on_paper *sum) {
    int top = BITS - 1;
    while (top > 0 && !sum->bit[top])
        top--;
    const int low = top > 52 ? top - 52 : 0;
    uint64_t digits = 0;
    bool beyond = false;
    for (int i = top; i >= low; i--)
        digits = digits << 1 | sum->bit[i];
    for (int i = 0; i < low - 1; i++)
        beyond |= sum->bit[i];
    if (low > 0 && sum->bit[low - 1] && (beyond || digits & 1)) digits++;
    return ldexp((double)digits, low + LOWEST);
}

typedef struct sum_case {
    const char *text;
    double x[6];
    int n;
} sum_case;
static const sum_case sum_cases[] = {{"nothing", {0}, 0}, {"zeros", {-0.0, 0, -0.0}, 3},
        {"denormals", {DBL_TRUE_MIN, 5 * DBL_TRUE_MIN, DBL_MIN - DBL_TRUE_MIN}, 3},
        {"a tie to even", {0x1p53, 1}, 2}, {"a tie away from odd", {0x1p53 + 2, 1}, 2},
        {"above a tie, far below", {0x1p53, 1, 0x1p-60}, 3},
        {"above a tie, by the last bit", {0x1p53, 1, DBL_TRUE_MIN}, 3},
        {"below a tie", {0x1p53, 0x1.fffffp-1, 0x1p-300}, 3},
        {"a carry into a new bit", {0x1.fffffffffffffp52, 0.5, 0x1p-40}, 3},
        {"limbs that are full", {0x1.fffffffep31, 0x1.fffffffep-1, 0x1.fffffffep-33, 0x1p-65}, 4},
        {"huge and small", {DBL_MAX / 2, 1e-300, DBL_TRUE_MIN, 1}, 4}};

static double sum_in_order(const double *x, int n, int first, int step) {
    exact_sum s = {.n_since = 0};
    for (int i = 0; i < n; i++)
        exact_add(&s, x[(first + step * i + n * n) % n]);
    return exact_value(&s);
}

static void expect_exact(const char *text, const double *x, int n) {
    on_paper sum = {{0}};
    for (int i = 0; i < n; i++)
        paper_add(&sum, x[i]);
    const double want = paper_value(&sum);
    for (int first = 0; first < (n < 8 ? n : 8); first++)
        for (int step = -1; step <= 1; step += 2) {
            const double got = sum_in_order(x, n, first, step);
            if (memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%s, from %d by %d: %a, expected %a", text, first, step, got, want);
        }
}

TEST(exact_sums_are_rounded_once) {
    for (size_t i = 0; i < sizeof sum_cases / sizeof *sum_cases; i++)
        expect_exact(sum_cases[i].text, sum_cases[i].x, sum_cases[i].n);
    for (int seed = 0; seed < 300; seed++) { // near each other, and of all sizes
        double x[24];
        char text[32];
        for (int i = 0; i < 24; i++)
            x[i] = ldexp(fabs(noise((uint64_t)seed, (uint64_t)i)),
                    (int)(noise(77, (uint64_t)(24 * seed + i)) * (seed % 4 ? 60 : 1040)) - 40);
        snprintf(text, sizeof text, "seed %d", seed);
        expect_exact(text, x, 24);
    }
}

// Wherever they stand, and through a sum of sums.
TEST(what_is_not_finite_is_not_lost) {
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int b = 0; b < 3; b++)
        for (int at = 0; at < 5; at++) {
            exact_sum s = {.n_since = 0}, all = s;
            for (int i = 0; i < 5; i++)
                exact_add(&s, i == at ? bad[b] : DBL_MAX / 8);
            exact_settle(&s);
            exact_add(&all, 1);
            exact_join(&all, &s);
            assert_true(isnan(exact_value(&s)) && isnan(exact_value(&all)));
        }
}

// --- squares
// Every bit: limb k is bits 32 k .. 32 k + 31.
static bool has_every_bit(const kernels *k, const array *x, const on_paper *want) {
    exact_sum s = {.n_since = 0};
    double parts[SQUARES_SUMS];
    const int n = k->squares(x->dt, x->n, x->p, parts);
    for (int i = 0; i < n; i++)
        exact_add(&s, parts[i]);
    exact_settle(&s);
    for (int i = 0; i < EXACT_LIMBS - 1; i++)
        for (int b = 0; b < 32; b++)
            if (((uint32_t)s.limb[i] >> b & 1) != want->bit[32 * i + b]) return false;
    return true;
}

static void expect_squares(const kernels *k, array *x, int exponent) {
    on_paper sum = {{0}};
    for (int64_t i = 0; i < x->n; i++)
        paper_add(&sum, array_at(x, i) * array_at(x, i));
    for (int turn = 0; turn < 2; turn++) { // then backwards
        if (!has_every_bit(k, x, &sum))
            fail_msg("%s, %s, %lld numbers, largest below 2^%d, turn %d: bits are lost", k->name,
                    dtype_name(x->dt), (long long)x->n, exponent, turn);
        for (int64_t i = 0; i < x->n / 2; i++) {
            const double first = array_at(x, i);
            array_put(x, i, array_at(x, x->n - 1 - i));
            array_put(x, x->n - 1 - i, first);
        }
    }
}

// For every exponent that a largest number may have: as many of these as there may be at once, with
// all bits set; or one, beside smaller ones whose last bits are just beyond what a fold takes.
TEST(squares_of_every_size) {
    const kernels *levels[4];
    int n_levels = vector_levels(levels);
    levels[n_levels++] = &kernels_ref;
    for (int l = 0; l < n_levels; l++)
        for (int exponent = -148; exponent <= 128; exponent += exponent > 120 ? 1 : 7)
            for (int form = 0; form < 10; form++) {
                const dtype dt = form % 2 ? DT_BF16 : DT_F32;
                const int below[] = {0, 19, 38, 79, 260};
                array x = array_new(dt, form < 2 ? SQUARES_MOST : 37, 0, 1, 0);
                const double largest = dt == DT_F32 ? 0x1.fffffep-1 : 0x1.fep-1;
                for (int64_t i = 0; i < x.n; i++)
                    array_put(&x, i,
                            (i % 3 ? -1 : 1) *
                                    ldexp(largest, exponent - (i ? below[form / 2] : 0)));
                if (form >= 2) array_put(&x, 5, -0.0);
                if (form >= 8) array_put(&x, 7, (double)FLT_TRUE_MIN);
                expect_squares(levels[l], &x, exponent);
                array_free(&x);
            }
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
