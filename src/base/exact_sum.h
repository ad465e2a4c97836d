// Sums of doubles that do not depend on the order of the addends, nor on how they were dealt out to
// ranks: whole numbers of fixed point, wide enough for every double. Rounded once, at the end.
#pragma once

// Digit i counts units of 2^(32 i - 1074). Digits are doubles, so that ranks may add them as such:
// exact for up to 2^20 addends between two calls of exact_sum_carry, and for as many ranks.
enum { EXACT_DIGITS = 67 };
typedef struct exact_sum {
    double digit[EXACT_DIGITS];
    int n_added; // since the last carry
} exact_sum;

// x >= 0; what is not finite makes the total NaN. Zeroed memory is an empty sum.
void exact_sum_add(exact_sum *s, double x);
// Brings every digit below 2^32: then equal sums have equal digits.
void exact_sum_carry(exact_sum *s);
// Rounded to within one unit in the last place, the same for equal sums.
double exact_sum_total(exact_sum *s);
