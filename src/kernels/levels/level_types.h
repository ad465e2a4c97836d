// Products and attention by type: of f64 those of the reference, else gemm_bf16, gemm_f32 and their
// like of the including file.
#pragma once
#include "kernels/ref/ref.h"
#include "kernels/levels/attention_sum.h"

static void gemm(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch) {
    if (shape->in == DT_F64)
        ref_gemm(shape, a, b, c, scratch);
    else if (shape->in == DT_BF16)
        gemm_bf16(shape, a, b, c, scratch);
    else
        gemm_f32(shape, a, b, c, scratch);
}

static void attention(const attention_args *args, int64_t unit, void *scratch) {
    if (args->dt == DT_F64)
        ref_attention(args, unit, scratch);
    else if (args->dt == DT_BF16)
        attention_bf16(args, unit, scratch);
    else
        attention_f32(args, unit, scratch);
}

static void attention_grad(const attention_args *args, int64_t unit, void *scratch) {
    if (args->dt == DT_F64)
        ref_attention_grad(args, unit, scratch);
    else if (args->dt == DT_BF16)
        attention_grad_bf16(args, unit, scratch);
    else
        attention_grad_f32(args, unit, scratch);
}

static void attention_grad_sum(const attention_args *args, int64_t unit) {
    if (args->dt == DT_F64)
        ref_attention_grad_sum(args, unit);
    else if (args->dt == DT_BF16)
        attention_sum(DT_BF16, args, unit);
    else
        attention_sum(DT_F32, args, unit);
}
