// Each function reduces its argument to a small interval and evaluates a Taylor polynomial there,
// which is long enough that the truncation error is below half a unit in the last place.
#include "base/elementary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

// The high part of ln 2 has 21 zero bits at its end, so products with exponents are exact.
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW  0x1.a39ef35793c76p-33

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double power_of_2(int n) { // n in [-1022, 1023]
    return of_bits((uint64_t)(n + 1023) << 52);
}

// Returns the nearest whole number for |x| < 2^51.
static double nearest(double x) {
    const double large = 0x1.8p52;
    return (x + large) - large;
}

// c[0] + c[1] x + ... + c[n - 1] x^(n - 1)
static double polynomial(const double *c, int n, double x) {
    double sum = c[n - 1];
    for (int i = n - 2; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

// |r| <= ln 2 / 2: r^14 / 14! < 2^-58.
double drv_exp(double x) {
    static const double c[] = {1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040,
            1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600,
            1.0 / 6227020800.0};
    if (isnan(x)) return x;
    if (x > 709.79) return (double)INFINITY;
    if (x < -745.2) return 0;
    const double n = nearest(x * 1.4426950408889634), r = (x - n * LN2_HIGH) - n * LN2_LOW,
                 p = 1 + (r + r * r * polynomial(c, 12, r));
    const int half = (int)n / 2; // in two steps: a denormal result is rounded once, by the second
    return p * power_of_2(half) * power_of_2((int)n - half);
}

// x = 2^n m, m in [sqrt(1/2), sqrt(2)), x > 0. Returns m.
static double split(double x, int *n) {
    const int tiny = x < 0x1p-1022 ? 54 : 0;
    const uint64_t bits = bits_of(tiny ? x * 0x1p54 : x);
    const double m = of_bits((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    const int upper = m > 1.4142135623730951;
    *n = (int)(bits >> 52) - 1023 - tiny + upper;
    return upper ? m / 2 : m;
}

// ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716: s^24 / 25 < 2^-65.
double drv_log(double x) {
    static const double odd[] = {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15,
            1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    if (isnan(x)) return x;
    if (x < 0) return (double)NAN;
    if (x == 0) return (double)-INFINITY;
    if (isinf(x)) return x;
    int n;
    const double f = split(x, &n) - 1, s = f / (f + 2), s2 = s * s;
    // 2 s = f - s f, exactly, so that what is rounded is small beside f.
    const double rest = s * (2 * s2 * polynomial(odd, 11, s2) - f);
    return n * LN2_HIGH + (f + (rest + n * LN2_LOW));
}

double drv_pow(double x, double y) {
    if (y == 0) return 1;
    if (x == 0 && !isnan(y)) return y > 0 ? 0 : (double)INFINITY;
    return drv_exp(y * drv_log(x));
}

// sin (odd) or cos (even) of r, |r| <= pi / 4: r^18 / 18! < 2^-58, r^19 / 19! < 2^-63.
static double sine(double r) {
    static const double c[] = {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
            1.0 / 6227020800.0, -1.0 / 1307674368000.0, 1.0 / 355687428096000.0};
    const double r2 = r * r;
    return r + r * r2 * polynomial(c, 8, r2);
}
static double cosine(double r) {
    static const double c[] = {1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
            -1.0 / 87178291200.0, 1.0 / 20922789888000.0};
    const double r2 = r * r;
    return 1 - (0.5 * r2 - r2 * r2 * polynomial(c, 7, r2));
}

// Reduces x by quarter turns; returns the remainder and the number of quarter turns modulo 4. The
// first two parts of pi / 2 have 22 bits each, so their products with up to 2^31 quarters are
// exact, and so are the subtractions (Cody and Waite, "Software Manual for the Elementary
// Functions", 1980).
static double less_quarters(double x, int *quarters) {
    const double n = nearest(x * 0.63661977236758134),
                 r = ((x - n * 0x1.921fbp0) - n * 0x1.5110bp-22) - n * 0x1.18469898cc517p-44;
    *quarters = (int)((int64_t)n & 3);
    return r;
}

static double turned(double r, int quarters) { // sin(r + quarters pi / 2)
    const double x = quarters & 1 ? cosine(r) : sine(r);
    return quarters & 2 ? -x : x;
}

double drv_sin(double x) {
    int quarters;
    if (!isfinite(x)) return (double)NAN;
    const double r = less_quarters(x, &quarters);
    return turned(r, quarters);
}

double drv_cos(double x) {
    int quarters;
    if (!isfinite(x)) return (double)NAN;
    const double r = less_quarters(x, &quarters);
    return turned(r, quarters + 1);
}
