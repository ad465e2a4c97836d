// Exact sums of doubles, which do not depend on order or partition. A superaccumulator (Kulisch,
// Computer Arithmetic and Validity, 2008) has limbs of 32 bits, each an integer in a double, so
// that any reduction can add the limbs of several sums element by element.
#pragma once
#include <stdint.h>

// Limb k counts 2^(32 k - 1074): from the smallest subnormal to beyond the largest double; the last
// one counts numbers that are not finite.
enum { EXACT_LIMBS = 68 };

typedef struct exact_sum {
    double limb[EXACT_LIMBS];
    int n_since; // numbers since the carries were moved on
} exact_sum;

// Adds x, of any sign, as long as the whole sum is not negative. NaN and infinity make it NaN.
void exact_add(exact_sum *s, double x);
// Propagates carries: the limbs of up to 2^20 such sums may then be added.
void exact_settle(exact_sum *s);
// s += other, which is settled.
void exact_join(exact_sum *s, const exact_sum *other);
// Returns the sum, rounded once to the nearest, ties to even; the limbs may be sums of settled
// ones.
double exact_value(exact_sum *s);
