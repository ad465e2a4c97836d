// Vectors of floats by the compiler's flags: 8 elements with AVX2, 16 with AVX-512, else 4 in plain
// C. Partial loads and stores access only the first n elements. Everything here is inlined, so that
// a constant n == WIDTH, dtype or arithmetic costs nothing.
//
// Every function gives the same bits at each width (but for the sign and the payload of a NaN), and
// so do the kernels, if they add up rows by `lanes` (docs/adr/0036).
#pragma once
#ifdef __AVX512F__
#include "kernels/levels/vec_avx512.h"
#elif defined __AVX2__
#include "kernels/levels/vec_avx2.h"
#else
#include "kernels/levels/vec_plain.h"
#endif

#include "base/dtype.h"

// Runs the statements after `n` for each vector of [0, n): j is the index of its first element, k
// the number of elements (the constant WIDTH but for the last, partial vector).
#define FOR_VECTORS(j, k, n, ...)                                                                  \
    do {                                                                                           \
        int64_t j = 0;                                                                             \
        for (; j + WIDTH <= (n); j += WIDTH) {                                                     \
            const int k = WIDTH;                                                                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        if (j < (n)) {                                                                             \
            const int k = (int)((n)-j);                                                            \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

// Calls a kernel for elements of type dt: of f64 the reference `ref`, else `own`, where the type is
// a constant.
#define BY_TYPE(ref, own, dt, ...)                                                                 \
    do {                                                                                           \
        if ((dt) == DT_F64)                                                                        \
            ref(dt, __VA_ARGS__);                                                                  \
        else if ((dt) == DT_BF16)                                                                  \
            own(DT_BF16, __VA_ARGS__);                                                             \
        else                                                                                       \
            own(DT_F32, __VA_ARGS__);                                                              \
    } while (0)

// Sums (or largest elements) of a row: element j belongs to the one numbered j % LANES, at any
// width, and at the end they are joined in halves: lane i with lane i + 8, then i + 4, i + 2, i + 1.
enum { LANES = 16, LANE_VECS = LANES / WIDTH };
typedef struct lanes {
    vec of[LANE_VECS];
} lanes;

// FOR_VECTORS with, as s, the index of the vector of lanes that the elements belong to.
#define FOR_LANES(j, s, k, n, ...)                                                                 \
    do {                                                                                           \
        int64_t row_ = 0;                                                                          \
        for (; row_ + LANES <= (n); row_ += LANES)                                                 \
            _Pragma("GCC unroll 4") for (int s = 0; s < LANE_VECS; s++) {                          \
                const int64_t j = row_ + s * WIDTH;                                                \
                const int k = WIDTH;                                                               \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        _Pragma("GCC unroll 4") for (int s = 0; s < LANE_VECS; s++) {                              \
            const int64_t j = row_ + s * WIDTH, left_ = (n)-j;                                     \
            if (left_ <= 0) break;                                                                 \
            const int k = left_ < WIDTH ? (int)left_ : WIDTH;                                      \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

INLINE lanes lanes_of(vec x) {
    lanes all;
#pragma GCC unroll 4
    for (int s = 0; s < LANE_VECS; s++)
        all.of[s] = x;
    return all;
}
// Joins the vectors of lanes (by v_add or v_max) to one vector, which v_sum or v_top reduces;
// v_joins reduces those of WIDTH rows.
INLINE vec lanes_fold(join_function *join, const lanes *x) {
    if (LANE_VECS == 4)
        return join(join(x->of[0], x->of[2 % LANE_VECS]),
                join(x->of[1 % LANE_VECS], x->of[3 % LANE_VECS]));
    return LANE_VECS == 2 ? join(x->of[0], x->of[1 % LANE_VECS]) : x->of[0];
}
INLINE float lanes_sum(const lanes *x) {
    return v_sum(lanes_fold(v_add, x));
}
INLINE float lanes_top(const lanes *x) {
    return v_top(lanes_fold(v_max, x));
}

// Begins to load what will be read soon.
INLINE void v_prefetch(const void *p) {
    __builtin_prefetch(p);
}

INLINE void v_prefetch_far(const void *p) { // into the second-level cache
    __builtin_prefetch(p, 0, 2);
}

// n elements of type dt (f32 or bf16) from index i, as float.
INLINE vec v_load_as(dtype dt, const void *p, int64_t i, int n) {
    return dt == DT_BF16 ? v_load_bf16((const uint16_t *)p + i, n)
                         : v_load((const float *)p + i, n);
}
INLINE void v_store_as(dtype dt, void *p, int64_t i, vec x, int n) {
    if (dt == DT_BF16)
        v_store_bf16((uint16_t *)p + i, x, n);
    else
        v_store((float *)p + i, x, n);
}
// x as it would be read back after v_store_as.
INLINE vec v_rounded_as(dtype dt, vec x) {
    return dt == DT_BF16 ? v_rounded_bf16(x) : x;
}

// exp(x) within 2 units in the last place on [-87, 88]; 0 below, exp(88) above; NaN stays.
// r = x - n ln 2 in two steps, then the Taylor polynomial of degree 6 on |r| <= ln 2 / 2, whose
// error there, r^7/7! = 1.2e-7 relative, is one unit.
INLINE vec v_exp(vec x) {
    const vec inside = v_min(v_set(88.0f), v_max(v_set(-87.0f), x)); // operand order keeps NaN
    const vec n = v_nearest(v_mul(inside, v_set(1.44269504f)));
    vec r = v_fnma(n, v_set(0.693359375f), inside);
    r = v_fnma(n, v_set(-2.12194440e-4f), r);
    vec p = v_set(1.0f / 720);
    p = v_fma(p, r, v_set(1.0f / 120));
    p = v_fma(p, r, v_set(1.0f / 24));
    p = v_fma(p, r, v_set(1.0f / 6));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(v_mul(p, r), r, r);
    return v_zero_below(v_scale2(v_add(p, v_set(1)), n), x, -87.0f);
}

// 2^x within 4 units in the last place for x <= 127; 0 below -126; NaN stays.
// On |r| <= 1/2 the minimax polynomial of degree 5 has a relative error of 7.5e-8.
INLINE vec v_exp2(vec x) {
    const vec n = v_nearest(x), r = v_sub(x, n); // below -126 undefined, and set to 0 below
    vec p = v_set(1.3276472e-3f);
    p = v_fma(p, r, v_set(9.675541e-3f));
    p = v_fma(p, r, v_set(5.550713e-2f));
    p = v_fma(p, r, v_set(2.402212e-1f));
    p = v_fma(p, r, v_set(6.9314694e-1f));
    p = v_scale2(v_fma(p, r, v_set(1.0000001f)), n);
    return v_zero_below(p, x, -126.0f);
}
