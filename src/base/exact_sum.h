// Exact sums of doubles, which do not depend on order or partition. A superaccumulator (Kulisch,
// Computer Arithmetic and Validity, 2008) has limbs of 32 bits, each an integer in a double, so
// that any reduction can add the limbs of several sums element by element.
#pragma once
#include <stdint.h>

// Limb k is in units of 2^(32 k - 1074), so the limbs reach from the smallest subnormal to beyond
// the largest double. The last one counts the numbers that are not finite.
enum { EXACT_LIMBS = 68 };

typedef struct exact_sum {
    double limb[EXACT_LIMBS];
    int n_since; // numbers that were added since carries were propagated
} exact_sum;

// Adds x. Numbers may be negative as long as the whole sum is not. NaN and infinity make it NaN.
void exact_add(exact_sum *s, double x);
// Propagates carries. The limbs of up to 2^20 sums that were settled so may be added.
void exact_settle(exact_sum *s);
// Adds another sum, which is settled.
void exact_join(exact_sum *s, const exact_sum *other);
// Settles the sum, whose limbs may be sums of those of settled ones, and returns it as a double,
// rounded once, to nearest even.
double exact_value(exact_sum *s);
