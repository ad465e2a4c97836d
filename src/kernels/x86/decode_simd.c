// Kernels of generation, where one token at a time is bound by memory: a row times a matrix, and
// attention over cached keys and values.
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/x86/simd.h"

// Bytes: some rows, since the stream of a small matrix is over before the processor finds it.
enum { FETCH_AHEAD = 16384 };

// out[r] = x . w[r] for `rows` rows (a constant where it is inlined) of `width`; four rows keep the
// multipliers busy.
INLINE void dots(const int rows, dtype dt, int64_t width, const void *x, const void *w, int64_t at,
        float *out) {
    vf sum[4];
    for (int r = 0; r < rows; r++)
        sum[r] = v_set(0);
    VLOOP(j, k, width, {
        const vf xj = ld(dt, x, j, k);
        for (int r = 0; r < rows; r++) {
            const char *p = (const char *)w + (at + r * width + j) * (dt == DT_BF16 ? 2 : 4);
            _mm_prefetch(p + FETCH_AHEAD, _MM_HINT_T0);
            sum[r] = v_fma(xj, ld(dt, w, at + r * width + j, k), sum[r]);
        }
    });
    for (int r = 0; r < rows; r++)
        out[r] = v_sum(sum[r]);
}

INLINE void row_times_matrix_t(dtype dt, int64_t n, int64_t width, const void *x, const void *w,
        void *y) {
    for (int64_t i = 0; i < n; i += 4) {
        const int64_t rows = n - i < 4 ? n - i : 4;
        float out[4];
        if (rows == 4)
            dots(4, dt, width, x, w, i * width, out);
        else
            for (int64_t r = 0; r < rows; r++)
                dots(1, dt, width, x, w, (i + r) * width, out + r);
        for (int64_t r = 0; r < rows; r++)
            if (dt == DT_BF16)
                ((uint16_t *)y)[i + r] = f32_to_bf16(out[r]);
            else
                ((float *)y)[i + r] = out[r];
    }
}

void SIMD_NAME(
        row_times_matrix)(dtype dt, int64_t n, int64_t k, const void *x, const void *w, void *y) {
    if (dt == DT_F64)
        kernels_ref.row_times_matrix(dt, n, k, x, w, y);
    else if (dt == DT_BF16)
        row_times_matrix_t(DT_BF16, n, k, x, w, y);
    else
        row_times_matrix_t(DT_F32, n, k, x, w, y);
}

INLINE void cached_attention_t(dtype dt, int64_t n, int64_t d, const void *q, const void *keys,
        const void *values, float *p, void *o) {
    int64_t s = 0;
    for (; s + 4 <= n; s += 4)
        dots(4, dt, d, q, keys, s * d, p + s);
    for (; s < n; s++)
        dots(1, dt, d, q, keys, s * d, p + s);
    float max = p[0];
    for (s = 1; s < n; s++)
        max = p[s] > max || isnan(p[s]) ? p[s] : max;
    const vf scale = v_set(1 / sqrtf((float)d)), top = v_set(max);
    vf sum = v_set(0);
    VLOOP(j, k, n, {
        v_store(p + j, v_exp(v_mul(scale, v_sub(v_load(p + j, k), top))), k);
        sum = v_add(sum, v_load(p + j, k));
    });
    const vf share = v_set(1 / v_sum(sum));
    VLOOP(j, k, d, {
        vf x = v_set(0);
        for (s = 0; s < n; s++)
            x = v_fma(v_set(p[s]), ld(dt, values, s * d + j, k), x);
        st(dt, o, j, v_mul(share, x), k);
    });
}

void SIMD_NAME(cached_attention)(dtype dt, int64_t n, int64_t d, const void *q, const void *keys,
        const void *values, void *scores, void *o) {
    if (dt == DT_F64)
        kernels_ref.cached_attention(dt, n, d, q, keys, values, scores, o);
    else if (dt == DT_BF16)
        cached_attention_t(DT_BF16, n, d, q, keys, values, scores, o);
    else
        cached_attention_t(DT_F32, n, d, q, keys, values, scores, o);
}
