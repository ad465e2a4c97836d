// The two 8-bit floats of training (OCP 8-bit Floating Point Specification, revision 1.0;
// Micikevicius et al., arXiv:2209.05433), and the scale that a tensor is multiplied by before it is
// rounded to one (docs/adr/0047). The scale is a power of 2, so a scaled product has the bits of
// the product of the rounded numbers: what a device computes in fp8, a processor without fp8
// computes in bf16.
#pragma once
#include <math.h>

typedef struct fp8_format {
    int fraction_bits;
    int min_exponent; // of the smallest normal number
    int max_exponent; // of the largest number, which is 1.75 * 2^max_exponent in both formats
} fp8_format;
static const fp8_format fp8_e4m3 = {3, -6, 8}, fp8_e5m2 = {2, -14, 15};

// Above it a scale or its inverse would not be a normal number in fp32. Tensors whose largest
// number is below 2^-85 lose precision.
enum { FP8_MAX_SCALE_EXPONENT = 100 };

// Returns the exponent of the largest power of 2 that leaves `largest`, which is not negative,
// within the format. 0: `largest` is not finite.
static inline int fp8_scale_exponent(const fp8_format *to, double largest) {
    int exponent;
    if (!isfinite(largest)) return 0;
    const double fraction = frexp(largest, &exponent); // in [0.5, 1)
    const int scale = to->max_exponent - (exponent - 1) - (fraction > 0.875);
    return largest == 0 || scale > FP8_MAX_SCALE_EXPONENT ? FP8_MAX_SCALE_EXPONENT : scale;
}
