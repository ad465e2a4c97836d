// AdamW against the update in double, element by element and on average: fp32 masters must keep
// what fp32 can keep, also where lr * weight_decay is below the spacing of floats at 1.
#include "arrays.h"

typedef struct adamw_case {
    const char *text;
    double lr, weight_decay, grad_scale;
    double p_scale; // of the weights
} adamw_case;

static const adamw_case cases[] = {
        {"as models are trained", 3e-4, 0.1, 0.5, 1}, {"no decay", 3e-4, 0, 1, 1},
        {"lr wd = 1e-9", 1e-8, 0.1, 1, 0.02}, {"lr wd = 6e-8", 6e-7, 0.1, 1, 0.02},
        {"strong decay", 1e-2, 10, 0.01, 1},
        {"lr 0", 0, 0.1, 1, 1}, // the moments move, the weights do not
};

// One parameter in double; p, m, v and g change as the kernel changes them.
typedef struct parameter {
    double p, m, v, g, change; // change: what is taken from p beside the decay
} parameter;

static parameter stepped(parameter x, const adamw_args *args) {
    const double g = x.g * args->grad_scale;
    x.m = args->beta1 * x.m + (1 - args->beta1) * g;
    x.v = args->beta2 * x.v + (1 - args->beta2) * g * g;
    x.change = args->lr * (x.m / args->c1) / (sqrt(x.v / args->c2) + args->eps);
    x.p = x.p - args->lr * args->weight_decay * x.p - x.change;
    x.g = 0;
    return x;
}

typedef struct state {
    array p, m, v, g, copy;
} state;

static state state_new(int64_t n, uint64_t seed, double p_scale) {
    state s = {array_new(DT_F32, n, seed, p_scale, 0), array_new(DT_F32, n, seed + 1, 1, 0),
            array_new(DT_F32, n, seed + 2, 1, 0), array_new(DT_F32, n, seed + 3, 1, 0),
            array_new(DT_BF16, n, seed + 4, 1, 0)};
    for (int64_t i = 0; i < n; i++)
        array_put(&s.v, i, fabs(array_at(&s.v, i)) + 0.01);
    return s;
}

static void state_free(state *s) {
    array_free(&s->p), array_free(&s->m), array_free(&s->v), array_free(&s->g);
    array_free(&s->copy);
}

static parameter state_at(const state *s, int64_t i) {
    return (parameter){array_at(&s->p, i), array_at(&s->m, i), array_at(&s->v, i),
            array_at(&s->g, i), 0};
}

static adamw_args args_of(adamw_case c) {
    return (adamw_args){.lr = c.lr,
            .beta1 = 0.9,
            .beta2 = 0.95,
            .eps = 1e-8,
            .weight_decay = c.weight_decay,
            .c1 = 0.1,
            .c2 = 0.05,
            .grad_scale = c.grad_scale};
}

static double half_spacing(double x) { // of floats at x
    return ldexp(0.5, ilogb(fmax(fabs(x), 0x1p-126)) - 23);
}

static void expect_near(const char *what, int64_t i, double got, double want, double bound) {
    if (!(fabs(got - want) <= bound))
        fail_msg("%s [%lld] is %.9g, expected %.9g within %.2g", what, (long long)i, got, want,
                bound);
}

// p is rounded once; what is taken from it has some roundings of its own.
static void check_element(const kernels *k, adamw_case c, const state *before, const state *after,
        int64_t i) {
    const adamw_args args = args_of(c);
    const parameter want = stepped(state_at(before, i), &args), got = state_at(after, i);
    const double taken = fabs(want.change) + fabs(c.lr * c.weight_decay * array_at(&before->p, i));
    char what[128];
    snprintf(what, sizeof what, "%s, %s, of %lld: p", k->name, c.text, (long long)before->p.n);
    expect_near(what, i, got.p, want.p, half_spacing(want.p) * 1.0001 + 8 * 0x1p-24 * taken);
    what[strlen(what) - 1] = 'm';
    expect_near(what, i, got.m, want.m, 3 * 0x1p-24);
    what[strlen(what) - 1] = 'v';
    expect_near(what, i, got.v, want.v, 3 * 0x1p-24);
    assert_true(got.g == 0);
    assert_true(array_at(&after->copy, i) == (double)bf16_to_f32(f32_to_bf16((float)got.p)));
}

static void check_step(const kernels *k, adamw_case c, int64_t n) {
    const adamw_args args = args_of(c);
    state before = state_new(n, 31, c.p_scale), after = state_new(n, 31, c.p_scale);
    k->adamw(DT_F32, n, after.p.p, after.m.p, after.v.p, after.g.p, &args, after.copy.p);
    for (int64_t i = 0; i < n; i++)
        check_element(k, c, &before, &after, i);
    array_guarded("adamw p", &after.p), array_guarded("adamw m", &after.m);
    array_guarded("adamw v", &after.v), array_guarded("adamw g", &after.g);
    array_guarded("adamw copy", &after.copy);
    state_free(&before), state_free(&after);
}

TEST(each_element) {
    static const int64_t lengths[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 127, 1009};
    const kernels *levels[4] = {&kernels_ref};
    const int n_levels = 1 + vector_levels(levels + 1), n_cases = sizeof cases / sizeof *cases,
              n_lengths = sizeof lengths / sizeof *lengths;
    for (int i = 0; i < n_levels * n_cases * n_lengths; i++)
        check_step(levels[i / n_lengths / n_cases], cases[i / n_lengths % n_cases],
                lengths[i % n_lengths]);
}

// The rounding of p hides a decay of 1e-9 in each weight, but not in the mean of a million: rounding
// moves a weight by up to 2^-24 of it, evenly, so the mean moves by 2^-24 / sqrt(3 n) = 3.4e-11.
TEST(small_decay_is_kept) {
    enum { N = 1 << 20 };
    const adamw_case c = {"lr wd = 1e-9", 1e-8, 0.1, 1, 0.02};
    const adamw_args args = args_of(c);
    const kernels *levels[4] = {&kernels_ref};
    for (int i = 0, n = 1 + vector_levels(levels + 1); i < n; i++) {
        state before = state_new(N, 41, c.p_scale), after = state_new(N, 41, c.p_scale);
        levels[i]->adamw(DT_F32, N, after.p.p, after.m.p, after.v.p, after.g.p, &args, NULL);
        double sum = 0;
        int64_t n_counted = 0;
        for (int64_t j = 0; j < N; j++) {
            const parameter want = stepped(state_at(&before, j), &args);
            const double p = array_at(&before.p, j);
            if (fabs(p) < 0.005) continue; // the step is no small part of these
            sum += (array_at(&after.p, j) + want.change - p) / p;
            n_counted++;
        }
        const double mean = sum / (double)n_counted;
        if (!(fabs(mean + 1e-9) < 4 * 4e-11))
            fail_msg("%s: a weight changes by %.3g of it, expected -1e-9", levels[i]->name, mean);
        state_free(&before), state_free(&after);
    }
}

// What is rounded to the bf16 copy, among it what is not a number.
TEST(copy_of_special_values) {
    const float values[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 3.3895314e38f, 3.4e38f,
            1.00390625f, 1.01171875f, -1.00390626f, 1e-30f};
    enum { N = sizeof values / sizeof *values };
    const adamw_args args = args_of((adamw_case){"", 0, 0, 1, 1});
    const kernels *levels[4] = {&kernels_ref};
    for (int i = 0, n = 1 + vector_levels(levels + 1); i < n; i++) {
        float p[N], m[N] = {0}, v[N] = {0}, g[N] = {0};
        uint16_t copy[N];
        memcpy(p, values, sizeof p);
        levels[i]->adamw(DT_F32, N, p, m, v, g, &args, copy);
        for (int j = 0; j < N; j++)
            if (copy[j] != f32_to_bf16(values[j]) &&
                    !(isnan(bf16_to_f32(copy[j])) && !isfinite(values[j])))
                fail_msg("%s: the copy of %g is %g", levels[i]->name, (double)values[j],
                        (double)bf16_to_f32(copy[j]));
    }
}
