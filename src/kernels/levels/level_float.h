// Products, attention and generation, by type, for the levels that multiply floats (bf16 is
// widened).
#pragma once
#include "kernels/levels/attention_float.h"
#include "kernels/levels/gemm_float.h"
#include "kernels/levels/generation.h"
#include "kernels/levels/level_types.h"

static void row_times_matrix(dtype dt, int64_t n, int64_t width, const void *x, const void *w,
        void *y) {
    row_times_matrix_of(wide_dot, dt, n, width, x, w, y);
}

static void row_attention(const attention_args *args, int64_t unit, void *part, void *scratch) {
    row_attention_of(wide_dot, args, unit, part, scratch);
}
