// Limbs hold integers below 2^53, so adding to them is exact; carries are moved on in time.
#include "base/exact_sum.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define LIMB_RANGE 4294967296.0 // 2^32
enum { NOT_FINITE = EXACT_LIMBS - 1, LOWEST = -1074, MANY = 1 << 20 };

// The 53 bits of x, from the bit that counts 2^(place - 1074), reach into three limbs at most.
void exact_add(exact_sum *s, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 52 & 0x7FF), place = exponent ? exponent - 1 : 0;
    if (exponent == 0x7FF) {
        s->limb[NOT_FINITE] += 1;
        return;
    }
    const uint64_t fraction = (bits & 0xFFFFFFFFFFFFF) | (uint64_t)(exponent != 0) << 52,
                   above = fraction >> (32 - place % 32);
    double *limb = &s->limb[place / 32];
    const double sign = bits >> 63 ? -1 : 1;
    limb[0] += sign * (double)(uint32_t)(fraction << place % 32);
    limb[1] += sign * (double)(uint32_t)above;
    limb[2] += sign * (double)(above >> 32);
    if (++s->n_since == MANY) exact_settle(s);
}

void exact_settle(exact_sum *s) {
    double carry = 0;
    for (int k = 0; k < NOT_FINITE; k++) {
        const double x = s->limb[k] + carry;
        carry = floor(x / LIMB_RANGE);
        s->limb[k] = x - carry * LIMB_RANGE;
    }
    s->n_since = 0;
}

void exact_join(exact_sum *s, const exact_sum *other) {
    for (int k = 0; k < EXACT_LIMBS; k++)
        s->limb[k] += other->limb[k];
    if (++s->n_since == MANY) exact_settle(s);
}

// Returns the 64 bits from the highest one bit on. The last bit is set if any lower bit is, so that
// rounding the result gives the same as rounding the whole sum. The lowest bit counts 2^(*power +
// LOWEST).
static uint64_t highest_bits(const exact_sum *s, int *power) {
    int top = NOT_FINITE - 1;
    while (top > 2 && s->limb[top] == 0)
        top--;
    if (s->limb[top] == 0) top--; // no bit is below these
    *power = 32 * (top - 1);
    uint64_t bits = (uint64_t)s->limb[top] << 32 | (uint64_t)s->limb[top - 1];
    if (top == 1) return bits;
    const uint64_t next = (uint64_t)s->limb[top - 2];
    const int shift = __builtin_clzll(bits); // below 32
    bits = bits << shift | next >> (32 - shift);
    bool below = next << shift & 0xFFFFFFFF;
    for (int k = top - 3; k >= 0; k--)
        below |= s->limb[k] != 0;
    *power -= shift;
    return bits | below;
}

double exact_value(exact_sum *s) {
    int power;
    if (s->limb[NOT_FINITE] > 0) return (double)NAN;
    exact_settle(s);
    const uint64_t bits = highest_bits(s, &power);
    return ldexp((double)bits, power + LOWEST);
}
