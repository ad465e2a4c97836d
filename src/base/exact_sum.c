// Exact sums in digits of 32 bits. A double is at most three of them.
#include "base/exact_sum.h"

#include <math.h>

enum { DIGIT_BITS = 32, LOWEST = -1074, MAX_ADDED = 1 << 20 };
static const double unit = 4294967296.0; // 2^DIGIT_BITS

void exact_sum_add(exact_sum *s, double x) {
    int exponent;
    if (x == 0) return;
    if (!isfinite(x)) {
        s->digit[0] = (double)NAN;
        return;
    }
    if (s->n_added++ == MAX_ADDED) exact_sum_carry(s);
    frexp(x, &exponent);                 // x < 2^exponent
    const int above = exponent - LOWEST; // bits of x above the lowest unit; > 0
    for (int i = (above - 1) / DIGIT_BITS; i >= 0 && x > 0; i--) {
        const double part = trunc(ldexp(x, -LOWEST - i * DIGIT_BITS));
        s->digit[i] += part;
        x -= ldexp(part, i * DIGIT_BITS + LOWEST);
    }
}

void exact_sum_carry(exact_sum *s) {
    double carry = 0;
    for (int i = 0; i < EXACT_DIGITS; i++) {
        const double digit = s->digit[i] + carry;
        carry = floor(digit / unit);
        s->digit[i] = digit - carry * unit;
    }
    s->n_added = 0;
}

// From the highest digit on: what comes after the third that is not zero is below the last bit.
double exact_sum_total(exact_sum *s) {
    double total = 0;
    if (isnan(s->digit[0])) return (double)NAN;
    exact_sum_carry(s);
    for (int i = EXACT_DIGITS - 1; i >= 0; i--)
        total += ldexp(s->digit[i], i * DIGIT_BITS + LOWEST);
    return total;
}
