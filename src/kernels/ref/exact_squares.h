// The sum of squares of floats without rounding. The square of a float fits a double, so what a
// sum of them loses is lost in adding. Each round takes from every number its bits above a common
// place (x + big rounds there, and subtracting big is exact): those parts add up without rounding,
// in any order, and the next round takes what is left, until nothing is. (Rump, Ogita and Oishi,
// "Accurate Floating-Point Summation", SIAM J. Sci. Comput. 31(1), 2008, section 3.)
// Compiled in every level of kernels: the rounds do not depend on how it is done.
#pragma once
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "kernels/ref/ref.h"

enum { SQUARES_LANES = 8 };

// Takes from n numbers below big / 3 what lies above 2^-52 of 2/3 big; n is a multiple of
// SQUARES_LANES. Whether anything is left.
static inline bool take_high_parts(int64_t n, double big, double *x, double *sum) {
    double high[SQUARES_LANES] = {0}, left[SQUARES_LANES] = {0}, all_left = 0;
    for (int64_t i = 0; i < n; i += SQUARES_LANES)
        for (int j = 0; j < SQUARES_LANES; j++) {
            const double part = (x[i + j] + big) - big, rest = x[i + j] - part;
            high[j] += part;
            left[j] += fabs(rest);
            x[i + j] = rest;
        }
    *sum = 0;
    for (int j = 0; j < SQUARES_LANES; j++) {
        *sum += high[j];
        all_left += left[j];
    }
    return all_left > 0;
}

// kernels.squares for types whose squares a double holds.
static inline int exact_squares(dtype dt, int64_t count, const void *values, double *parts) {
    double square[SQUARES_MOST], all[SQUARES_LANES] = {0}, total = 0;
    const int64_t filled = (count + SQUARES_LANES - 1) / SQUARES_LANES * SQUARES_LANES;
    for (int64_t i = 0; i < count; i++) {
        const double v = get(dt, values, i);
        square[i] = v * v;
    }
    for (int64_t i = count; i < filled; i++)
        square[i] = 0;
    for (int64_t i = 0; i < filled; i += SQUARES_LANES)
        for (int j = 0; j < SQUARES_LANES; j++)
            all[j] += square[i + j];
    for (int j = 0; j < SQUARES_LANES; j++)
        total += all[j];
    if (!(total > 0 && total <= DBL_MAX)) { // nothing, or not finite
        parts[0] = total;
        return 1;
    }
    int n_sums = 0, exponent;
    frexp(total, &exponent);
    double bound = ldexp(1, exponent + 2); // of twice any number and of all together
    while (take_high_parts(filled, 1.5 * bound, square, &parts[n_sums++]))
        bound *= 0x1p-42; // SQUARES_MOST halves of 2^-52 bound, with room to spare
    return n_sums;
}
