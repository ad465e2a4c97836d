// Functions that must be the same bits on every processor: near the true value, and recorded.
#include "harness.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "base/rng.h"

enum { N = 40000 };

static double between(uint64_t i, double low, double high) {
    const rng_key key = {7, RNG_TEST, 0};
    return low + (high - low) * rng_uniform(&key, i);
}

typedef double function(double x);
typedef long double exact_function(long double x);

// Errors in units in the last place of the true value, or of `least` where that is more.
static void near_truth(function *f, exact_function *truth, double low, double high, double least) {
    for (uint64_t i = 0; i < N; i++) {
        const double x = between(i, low, high);
        const long double want = truth((long double)x);
        const double size = fmax(fabs((double)want), least),
                     unit = nextafter(size, HUGE_VAL) - size;
        const long double error = ((long double)f(x) - want) / (long double)unit;
        if (!(fabsl(error) <= 2))
            fail_msg("of %.17g: %.17g, %.2f units from the truth", x, f(x), (double)error);
    }
}

TEST(are_near_truth) {
    if (LDBL_MANT_DIG <= DBL_MANT_DIG) skip(); // nothing better to compare with
    near_truth(drv_exp, expl, -740, 709, 0x1p-1022);
    near_truth(drv_exp, expl, -1e-3, 1e-3, 0);
    near_truth(drv_log, logl, 0.5, 2, 0);
    near_truth(drv_log, logl, 1e-300, 1e300, 0);
    near_truth(drv_log, logl, 0.999999, 1.000001, 0);
    near_truth(drv_sin, sinl, -1e6, 1e6, 0.5);
    near_truth(drv_cos, cosl, -1e6, 1e6, 0.5);
    near_truth(drv_sin, sinl, -0x1p31, 0x1p31, 0.5);
    near_truth(drv_cos, cosl, -4, 4, 0.5);
    for (uint64_t i = 0; i < N; i++) { // rotary frequencies, moments
        const double x = between(2 * i, 0, 1e6), y = between(2 * i + 1, -1, 1);
        const long double want = powl((long double)x, (long double)y);
        const double bound = (2 + fabs(y * log(x))) * 0x1p-52;
        assert_true(fabsl((long double)drv_pow(x, y) / want - 1) <= (long double)bound);
    }
}

TEST(edges) {
    const double inf = (double)INFINITY, nan = (double)NAN;
    assert_true(
            drv_exp(0) == 1 && drv_exp(-inf) == 0 && drv_exp(inf) == inf && isnan(drv_exp(nan)));
    assert_true(drv_exp(-745.2) == 0 && drv_exp(-745.1) == 0x1p-1074);
    assert_true(drv_log(1) == 0 && drv_log(0) == -inf && drv_log(inf) == inf);
    assert_true(isnan(drv_log(-1)) && isnan(drv_log(nan)));
    assert_true(fabs(drv_log(0x1p-1074) + 1074 * log(2)) < 1e-12);
    assert_true(drv_sin(0) == 0 && drv_cos(0) == 1 && isnan(drv_sin(inf)) && isnan(drv_cos(nan)));
    assert_true(drv_pow(0.5, 0) == 1 && drv_pow(0, 3) == 0 && drv_pow(0, 0) == 1);
    assert_true(isnan(drv_pow(0, nan)) && isnan(drv_pow(nan, 1)) && isnan(drv_pow(1, nan)));
    assert_true(drv_pow(0, -1) == inf && fabs(drv_pow(0.9, 10) - pow(0.9, 10)) < 1e-16);
}

// The bits of 5 x 40,000 values as one number, which x86-64 with and without FMA gave.
TEST(are_recorded) {
    static function *const all[] = {drv_exp, drv_log, drv_sin, drv_cos};
    static const double range[][2] = {{-50, 50}, {1e-20, 1e6}, {-1e5, 1e5}, {-1e5, 1e5}};
    uint64_t sum = 0;
    for (uint64_t i = 0; i < N; i++)
        for (int f = 0; f < 5; f++) {
            const double y = f < 4 ? all[f](between(i, range[f][0], range[f][1]))
                                   : drv_pow(between(i, 1, 1e6), -between(i + 1, 0, 1));
            uint64_t bits;
            memcpy(&bits, &y, sizeof bits);
            sum = sum * 0x9E3779B97F4A7C15u + bits;
        }
    assert_int_equal(sum, 0x0E12EB8957EF733A);
}
