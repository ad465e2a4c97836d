// Element types. bf16 is stored as uint16_t, computed in float, rounded to nearest even here only.
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

// The type of sums, statistics and gradients that belong to values of type d.
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
