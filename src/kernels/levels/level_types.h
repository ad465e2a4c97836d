// Products and attention by type: f64 goes to the reference, the other types to gemm_bf16, gemm_f32
// and so on of the including file.
#pragma once
#include "kernels/ref/ref.h"
#include "kernels/levels/attention_sum.h"

#define PICK(dt, f64, bf16, f32) ((dt) == DT_F64 ? (f64) : (dt) == DT_BF16 ? (bf16) : (f32))

static void gemm(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch) {
    PICK(shape->in, ref_gemm, gemm_bf16, gemm_f32)(shape, a, b, c, scratch);
}

static void attention(const attention_args *args, int64_t unit, void *scratch) {
    PICK(args->dt, ref_attention, attention_bf16, attention_f32)(args, unit, scratch);
}

static void attention_grad(const attention_args *args, int64_t unit, void *scratch) {
    PICK(args->dt, ref_attention_grad, attention_grad_bf16, attention_grad_f32)
    (args, unit, scratch);
}

static void attention_grad_sum(const attention_args *args, int64_t unit) {
    if (args->dt == DT_F64)
        ref_attention_grad_sum(args, unit);
    else if (args->dt == DT_BF16)
        attention_sum(DT_BF16, args, unit);
    else
        attention_sum(DT_F32, args, unit);
}
