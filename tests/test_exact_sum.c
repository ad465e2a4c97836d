// Sums without rounding: any order, any share-out, the extremes of a double.
#include "harness.h"

#include <float.h>
#include <math.h>

#include "base/exact_sum.h"

enum { N = 5000 };

// Numbers of all sizes, some of them 1e300 times others.
static double number(int i) {
    const double x = fabs(noise(7, (uint64_t)i));
    return ldexp(x, (int)(600 * noise(8, (uint64_t)i)));
}

TEST(any_order_gives_the_same_bits) {
    exact_sum forward = {.n_since = 0}, backward = forward, parts[7] = {forward};
    for (int i = 0; i < N; i++) {
        exact_add(&forward, number(i));
        exact_add(&backward, number(N - 1 - i));
        exact_add(&parts[i * 13 % 7], number(i));
    }
    const double sum = exact_value(&forward);
    assert_true(sum == exact_value(&backward));
    exact_sum all = {.n_since = 0};
    for (int p = 0; p < 7; p++) {
        exact_settle(&parts[p]);
        for (int k = 0; k < EXACT_LIMBS; k++)
            all.limb[k] += parts[p].limb[k];
    }
    assert_true(sum == exact_value(&all));
}

// 2^53 + 1 + 1: a chain of doubles loses both.
TEST(nothing_is_lost) {
    exact_sum s = {.n_since = 0};
    exact_add(&s, 9007199254740992.0);
    exact_add(&s, 1);
    exact_add(&s, 1);
    assert_true(exact_value(&s) == 9007199254740994.0);
    for (int i = 0; i < 3000000; i++) // carries are moved on in between
        exact_add(&s, 0.75);
    assert_true(exact_value(&s) == 9007199254740994.0 + 2250000);
}

TEST(extremes) {
    static const struct {
        double x, y, sum;
    } cases[] = {{0, -0.0, 0}, {DBL_TRUE_MIN, DBL_TRUE_MIN, 2 * DBL_TRUE_MIN},
            {DBL_MIN, DBL_TRUE_MIN, DBL_MIN + DBL_TRUE_MIN}, {DBL_MAX, 0, DBL_MAX},
            {DBL_MAX, DBL_MAX, (double)INFINITY}, {1e-320, 3e-310, 1e-320 + 3e-310},
            {0.1, 0.2, 0.1 + 0.2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        exact_sum s = {.n_since = 0};
        exact_add(&s, cases[i].x);
        exact_add(&s, cases[i].y);
        const double sum = exact_value(&s);
        if (sum != cases[i].sum) fail_msg("%g + %g: %.17g", cases[i].x, cases[i].y, sum);
    }
    const double bad[] = {(double)NAN, (double)INFINITY};
    for (int i = 0; i < 2; i++) {
        exact_sum s = {.n_since = 0};
        exact_add(&s, 1);
        exact_add(&s, bad[i]);
        assert_true(isnan(exact_value(&s)));
    }
}
