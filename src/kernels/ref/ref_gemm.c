// Products by their definition, in blocks.
#include "kernels/ref/ref.h"

// Sums in double, ROWS x COLUMNS of them at a time: operands are converted once for all of these.
enum { ROWS = 8, COLUMNS = 64 };

static void to_double(dtype dt, const void *p, int64_t at, int64_t stride, int64_t n,
        double *restrict out) {
    if (dt == DT_BF16)
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)bf16_to_f32(((const uint16_t *)p)[at + i * stride]);
    else if (dt == DT_F32)
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)((const float *)p)[at + i * stride];
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const double *)p)[at + i * stride];
}

// Columns of b, from `col` on, for one k. What is held in blocks is widened WIDEN_UNIT elements at
// a time: where b is transposed, those of COLUMNS rows, which serve as many k.
typedef struct operand_b {
    const gemm_shape *shape;
    const void *p;
    float *wide; // WIDEN_UNIT of each row
} operand_b;

static void widen_unit(const operand_b *b, int64_t row, int64_t column, float *out) {
    const block_matrix *blocks = b->shape->blocks;
    const int64_t left = blocks->columns - column, n = left < WIDEN_UNIT ? left : WIDEN_UNIT;
    const quant_type *type;
    const int64_t at = block_row_at(blocks, row, &type);
    kernels_ref.widen(DT_F32, type, (const char *)b->p + at, column, n, out);
}

static void b_to_double(operand_b *b, int64_t k, int64_t col, int64_t cols, double *out) {
    const gemm_shape *s = b->shape;
    if (!s->blocks) {
        to_double(s->in, b->p, s->tb ? col * s->ldb + k : k * s->ldb + col, s->tb ? s->ldb : 1,
                cols, out);
        return;
    }
    const int64_t row = s->b_row + (s->tb ? col : k), column = s->b_column + (s->tb ? k : col);
    for (int64_t j = 0; j < cols; j++) {
        const int64_t of_row = s->tb ? row + j : row, at = s->tb ? column : column + j;
        float *unit = b->wide + (s->tb ? j * WIDEN_UNIT : 0);
        if (s->tb ? k == 0 || at % WIDEN_UNIT == 0 : j == 0 || at % WIDEN_UNIT == 0)
            widen_unit(b, of_row, at / WIDEN_UNIT * WIDEN_UNIT, unit);
        out[j] = as_operand(s->in, (double)unit[at % WIDEN_UNIT]);
    }
}

// Rounds a sum that is added to c to c's type, so that it may as well be formed elsewhere first.
static double as_partial_sum(const gemm_shape *shape, double sum) {
    return shape->accumulate && shape->out == DT_F32 ? (double)(float)sum : sum;
}

static void block(const gemm_shape *shape, const void *a, const void *b, void *c, float *scratch,
        int64_t row, int64_t col, int64_t rows, int64_t cols) {
    double sum[ROWS][COLUMNS] = {0}, x[ROWS] = {0}, y[COLUMNS] = {0};
    operand_b held = {.shape = shape, .p = b, .wide = scratch};
    const double scale = gemm_scale(shape);
    for (int64_t k = 0; k < shape->k; k++) {
        to_double(shape->in, a, shape->ta ? k * shape->lda + row : row * shape->lda + k,
                shape->ta ? 1 : shape->lda, rows, x);
        b_to_double(&held, k, col, cols, y);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < COLUMNS; j++)
                sum[i][j] += x[i] * y[j];
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const int64_t at = (row + i) * shape->ldc + col + j;
            const double before = shape->accumulate ? get(shape->out, c, at) : 0;
            put(shape->out, c, at, before + as_partial_sum(shape, scale * sum[i][j]));
        }
}

void ref_gemm(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch) {
    for (int64_t col = 0; col < shape->n; col += COLUMNS)
        for (int64_t row = 0; row < shape->m; row += ROWS)
            block(shape, a, b, c, scratch, row, col, shape->m - row < ROWS ? shape->m - row : ROWS,
                    shape->n - col < COLUMNS ? shape->n - col : COLUMNS);
}
