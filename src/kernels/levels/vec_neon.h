// Functions of vec_plain.h by NEON, which every arm64 processor has: those for which C has no
// operator on vectors. They give the bits of the loops that they take the place of.
#pragma once
#include <arm_neon.h>
#include <stdint.h>

INLINE vec v_sqrt(vec a) {
    return (vec)vsqrtq_f32((float32x4_t)a);
}
INLINE vec v_fma(vec a, vec b, vec c) { // a b + c, rounded once
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE vec v_load_bf16(const uint16_t *p, int n) {
    uint16_t part[WIDTH] = {0};
    memcpy(part, p, n == WIDTH ? sizeof part : (size_t)n * sizeof *part);
    return (vec)vshll_n_u16(vld1_u16(part), 16);
}
// Returns the nearest bf16 (even in a tie) in the upper half of each element.
INLINE ints v_bf16_above(vec x) {
    const ints bits = i_of(x), nan = (ints)(x != x);
    return i_select(nan, bits | 0x400000u, bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
}
INLINE void v_store_bf16(uint16_t *p, vec x, int n) {
    uint16_t part[WIDTH];
    vst1_u16(part, vshrn_n_u32((uint32x4_t)v_bf16_above(x), 16));
    memcpy(p, part, n == WIDTH ? sizeof part : (size_t)n * sizeof *part);
}
INLINE vec v_rounded_bf16(vec x) { // as a float
    return (vec)v_bf16_above(x);
}
