// The table of a level: the kernels of this folder as compiled by the including file. Kernels that
// exist in several arithmetics (products, attention, generation) are chosen beforehand, by
// level_float.h or by the file.
#pragma once
#include "kernels/ref/ref.h"
#include "kernels/levels/dropout.h"
#include "kernels/levels/elementwise.h"
#include "kernels/levels/round_fp8.h"
#include "kernels/levels/muon.h"
#include "kernels/levels/reductions.h"
#include "kernels/levels/rounded.h"
#include "kernels/levels/widen.h"

#define LEVEL_TABLE(level)                                                                         \
    const kernels kernels_##level = {                                                              \
            .name = #level,                                                                        \
            .gemm = gemm,                                                                          \
            .widen = widen,                                                                        \
            .add = add,                                                                            \
            .accumulate = accumulate,                                                              \
            .narrow = narrow,                                                                      \
            .rmsnorm = rmsnorm,                                                                    \
            .rmsnorm_grad = rmsnorm_grad,                                                          \
            .rope_table = ref_rope_table,                                                          \
            .rope = rope,                                                                          \
            .swiglu = swiglu,                                                                      \
            .swiglu_grad = swiglu_grad,                                                            \
            .cross_entropy = cross_entropy,                                                        \
            .exponents = exponents,                                                                \
            .scaled = scaled,                                                                      \
            .dropout = dropout,                                                                    \
            .magnitude = magnitude,                                                                \
            .round_fp8 = round_fp8,                                                                \
            .squares = squares,                                                                    \
            .adamw = adamw,                                                                        \
            .momentum = momentum,                                                                  \
            .combine = combine,                                                                    \
            .descend = descend,                                                                    \
            .adamw_rounded = adamw_rounded,                                                        \
            .add_rounded = add_rounded,                                                            \
            .attention = attention,                                                                \
            .attention_grad = attention_grad,                                                      \
            .attention_grad_sum = attention_grad_sum,                                              \
            .row_times_matrix = row_times_matrix,                                                  \
            .row_attention = row_attention,                                                        \
            .row_attention_join = row_attention_join,                                              \
    }
