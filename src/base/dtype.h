// Element types. bf16 is stored as uint16_t and computed in float; f32_to_bf16 defines how it is
// rounded, to nearest even, which the kernels follow. f16 (IEEE 754 binary16) is in files only.
#pragma once
#include <stdint.h>
#include <string.h>

typedef enum dtype { DT_F32, DT_BF16, DT_F64, DT_I32, DT_I64 } dtype;

static inline int64_t dtype_bytes(dtype d) {
    return d == DT_BF16 ? 2 : d == DT_F64 || d == DT_I64 ? 8 : 4;
}

static inline const char *dtype_name(dtype d) {
    static const char *const names[] = {"f32", "bf16", "f64", "i32", "i64"};
    return names[d];
}

// Returns the accumulation type of d, which sums, statistics and gradients have.
static inline dtype dtype_acc(dtype d) {
    return d == DT_F64 ? DT_F64 : DT_F32;
}

static inline float bf16_to_f32(uint16_t b) {
    uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint16_t f32_to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(u >> 16 | 0x40); // stays a NaN
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static inline float f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7FFFu;
    uint32_t u = magnitude << 13;
    if (magnitude >= 0x7C00) // infinity, NaN
        u |= 0x7F800000u;
    else if (magnitude >= 0x0400)
        u += 112u << 23; // the biases are 127 and 15
    else {               // denormal: the fraction counts units of 2^-24
        const float f = (float)magnitude * 0x1p-24f;
        memcpy(&u, &f, 4);
    }
    u |= sign;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

// Rounds to nearest even; 65520 and more become infinity.
static inline uint16_t f32_to_f16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    const uint32_t sign = u >> 16 & 0x8000;
    u &= 0x7FFFFFFFu;
    if (u > 0x7F800000u) return (uint16_t)(sign | 0x7E00 | (u >> 13 & 0x3FF)); // stays a NaN
    if (u >= 0x477FF000u) return (uint16_t)(sign | 0x7C00);
    if (u < 0x38800000u) { // below 2^-14: the sum's last place is 2^-24, the unit of denormals
        memcpy(&f, &u, 4);
        f += 0.5f;
        memcpy(&u, &f, 4);
        return (uint16_t)(sign | (u - 0x3F000000u));
    }
    u += 0xFFF + (u >> 13 & 1);
    return (uint16_t)(sign | (u - 0x38000000u) >> 13);
}
