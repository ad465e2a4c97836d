#include "kernels/ref/ref.h"

// Rows of c by sums in double, 64 columns at a time.
void ref_gemm(const gemm_shape *s, const void *a, const void *b, void *c, void *scratch) {
    (void)scratch;
    enum { COLUMNS = 64 };
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t first = 0; first < s->n; first += COLUMNS) {
            const int64_t n = s->n - first < COLUMNS ? s->n - first : COLUMNS;
            double sum[COLUMNS] = {0};
            for (int64_t j = 0; j < n && s->accumulate; j++)
                sum[j] = get(s->out, c, i * s->ldc + first + j);
            for (int64_t k = 0; k < s->k; k++) {
                const double x = get(s->in, a, s->ta ? k * s->lda + i : i * s->lda + k);
                for (int64_t j = 0; j < n; j++) {
                    const int64_t col = first + j;
                    sum[j] += x * get(s->in, b, s->tb ? col * s->ldb + k : k * s->ldb + col);
                }
            }
            for (int64_t j = 0; j < n; j++)
                put(s->out, c, i * s->ldc + first + j, sum[j]);
        }
}
