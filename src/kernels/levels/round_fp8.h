// Rounding to fp8 (kernels/fp8.h), element by element in fp32, where every step is exact but the
// one that rounds. The compiler makes vectors of the loops.
#pragma once
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "kernels/levels/inline.h"

INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
INLINE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Bit patterns of floats without a sign are ordered as the floats are, NaN above infinity.
static double magnitude(dtype dt, int64_t n, const void *x) {
    uint32_t largest = 0;
    if (dt == DT_F64) return kernels_ref.magnitude(dt, n, x);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits =
                dt == DT_BF16 ? (uint32_t)((const uint16_t *)x)[i] << 16 : ((const uint32_t *)x)[i];
        const uint32_t size = bits & 0x7FFFFFFFu;
        largest = size > largest ? size : largest;
    }
    return (double)float_of(largest);
}

// Adding 1.5 * 2^23 times a spacing rounds a float to a multiple of the spacing; `big` is that for
// the binade of v, or for the smallest normal numbers.
INLINE float nearest_fp8(float v, float smallest_big, float big_of_one) {
    const float power = float_of(bits_of(v) & 0x7F800000u);
    const float scaled = power * big_of_one, big = scaled > smallest_big ? scaled : smallest_big;
    return (v + big) - big;
}

static void round_fp8(dtype dt, const fp8_format *to, int64_t n, int scale, const void *x,
        void *y) {
    if (dt == DT_F64) {
        kernels_ref.round_fp8(dt, to, n, scale, x, y);
        return;
    }
    const float up = (float)ldexp(1, scale), down = (float)ldexp(1, -scale);
    const float big_of_one = (float)ldexp(1.5, 23 - to->fraction_bits);
    const float smallest_big = (float)ldexp((double)big_of_one, to->min_exponent);
    if (dt == DT_BF16)
        for (int64_t i = 0; i < n; i++) {
            const float v = float_of((uint32_t)((const uint16_t *)x)[i] << 16) * up;
            const float rounded = nearest_fp8(v, smallest_big, big_of_one) * down;
            ((uint16_t *)y)[i] = (uint16_t)(bits_of(rounded) >> 16);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            const float v = ((const float *)x)[i] * up;
            ((float *)y)[i] = nearest_fp8(v, smallest_big, big_of_one) * down;
        }
}
