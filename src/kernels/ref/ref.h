// Element access for the reference kernels: any type in, double inside, rounded once on the way
// out.
#pragma once
#include "kernels/kernels.h"

static inline double get(dtype dt, const void *p, int64_t i) {
    switch (dt) {
    case DT_F32:
        return (double)((const float *)p)[i];
    case DT_BF16:
        return (double)bf16_to_f32(((const uint16_t *)p)[i]);
    case DT_F64:
        return ((const double *)p)[i];
    case DT_I32:
        return (double)((const int32_t *)p)[i];
    case DT_I64:
        return (double)((const int64_t *)p)[i];
    }
    return 0;
}

static inline void put(dtype dt, void *p, int64_t i, double x) {
    switch (dt) {
    case DT_F32:
        ((float *)p)[i] = (float)x;
        break;
    case DT_BF16:
        ((uint16_t *)p)[i] = f32_to_bf16((float)x);
        break;
    case DT_F64:
        ((double *)p)[i] = x;
        break;
    case DT_I32:
        ((int32_t *)p)[i] = (int32_t)x;
        break;
    case DT_I64:
        ((int64_t *)p)[i] = (int64_t)x;
        break;
    }
}

static inline void accumulate_at(dtype dt, void *p, int64_t i, double x) {
    put(dt, p, i, get(dt, p, i) + x);
}

// x as an operand of a product of this type: bf16 rounds it.
static inline double as_operand(dtype dt, double x) {
    return dt == DT_BF16 ? (double)bf16_to_f32(f32_to_bf16((float)x)) : x;
}

void ref_gemm(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch);
void ref_rope_table(dtype dt, const rope_args *args, int64_t n, const int32_t *position,
        void *table);
void ref_attention(const attention_args *args, int64_t unit, void *scratch);
void ref_attention_grad(const attention_args *args, int64_t unit, void *scratch);
void ref_attention_grad_sum(const attention_args *args, int64_t unit);
