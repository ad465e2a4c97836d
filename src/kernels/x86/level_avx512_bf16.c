// The level AVX-512 with its bf16 instructions, as one table: products of bf16 go by the dot
// product, those of f32 as at the level below; all else is compiled again, with an instruction that
// rounds to bf16.
#include "kernels/ref/ref.h"
#include "kernels/x86/attention_pair.h"
#include "kernels/x86/attention_sum.h"
#include "kernels/x86/dropout.h"
#include "kernels/x86/elementwise.h"
#include "kernels/x86/gemm_pair.h"
#include "kernels/x86/generation.h"
#include "kernels/x86/reductions.h"

static void gemm(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch) {
    if (shape->in == DT_F64)
        ref_gemm(shape, a, b, c, scratch);
    else if (shape->in == DT_BF16)
        gemm_bf16(shape, a, b, c, scratch);
    else
        kernels_avx512.gemm(shape, a, b, c, scratch);
}

static void attention(const attention_args *args, int64_t unit, void *scratch) {
    if (args->dt == DT_F64)
        ref_attention(args, unit, scratch);
    else if (args->dt == DT_BF16)
        attention_bf16(args, unit, scratch);
    else
        kernels_avx512.attention(args, unit, scratch);
}

static void attention_grad(const attention_args *args, int64_t unit, void *scratch) {
    if (args->dt == DT_F64)
        ref_attention_grad(args, unit, scratch);
    else if (args->dt == DT_BF16)
        attention_grad_bf16(args, unit, scratch);
    else
        kernels_avx512.attention_grad(args, unit, scratch);
}

static void attention_grad_sum(const attention_args *args, int64_t unit) {
    if (args->dt == DT_F64)
        ref_attention_grad_sum(args, unit);
    else if (args->dt == DT_BF16)
        attention_sum_bf16(args, unit);
    else
        attention_sum_f32(args, unit);
}

const kernels kernels_avx512_bf16 = {
        .name = "avx512_bf16",
        .gemm = gemm,
        .add = add,
        .accumulate = accumulate,
        .rmsnorm = rmsnorm,
        .rmsnorm_grad = rmsnorm_grad,
        .rope_table = ref_rope_table,
        .rope = rope,
        .swiglu = swiglu,
        .swiglu_grad = swiglu_grad,
        .cross_entropy = cross_entropy,
        .dropout = dropout,
        .sum_squares = sum_squares,
        .adamw = adamw,
        .attention = attention,
        .attention_grad = attention_grad,
        .attention_grad_sum = attention_grad_sum,
        .row_times_matrix = row_times_matrix,
        .cached_attention = cached_attention,
};
