// Compares plain types by element, and quantised ones, which are rounded in blocks, by row.
#include "convert/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

double weights_roundoff(const char *type) {
    static const struct {
        const char *name;
        double u;
    } types[] = {{"F64", 0x1p-24}, {"F32", 0x1p-24}, {"F16", 0x1p-11}, {"BF16", 0x1p-8},
            {"Q8_0", 3.0 / 254}, {"Q6_K", 3.0 / 62}, {"Q5_", 3.0 / 30}, {"Q4_", 3.0 / 14}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (str_starts(type, types[i].name)) return types[i].u;
    return 0.5;
}

// Returns half the smallest subnormal number: 2^-24 for F16 (5 bits of exponent, 10 of fraction:
// 2^(-14-10)), 2^-133 for BF16 (2^(-126-7)), 2^-149 for F32. For quantised blocks it is that of
// their F16 scales, times their largest factor: 127, or 63 x 31 with sub-blocks.
double weights_floor(const char *type) {
    if (strcmp(type, "BF16") == 0) return 0x1p-134;
    if (strcmp(type, "F16") == 0) return 0x1p-25;
    if (*type != 'Q') return 0x1p-150;
    return (strstr(type, "_K") ? 63 * 31 : 127) * 0x1p-25;
}

// --- the differences that rounding explains
// The bound is twice the roundoff, since other programs may truncate instead of rounding to nearest,
// and twice the floor below the normal range. Sums in another order, such as PEFT's W + scale B A,
// have errors relative to their terms, which cancel: CANCELLING root mean squares of the row.
#define CUT        2.0
#define CANCELLING 4.0

typedef struct tolerance {
    double relative, floor;
    bool by_row;   // compares whole rows by root mean squares, not values
    double of_row; // the least size of a value, in root mean squares of its row
} tolerance;

static tolerance tolerance_of(const source_tensor *a, const source_tensor *b, bool exact_a) {
    const bool quantised = a->type_name[0] == 'Q' || b->type_name[0] == 'Q';
    const double u_a = exact_a ? 0 : weights_roundoff(a->type_name);
    return (tolerance){.relative = CUT * (u_a + weights_roundoff(b->type_name)),
            .floor = CUT *
                     ((exact_a ? 0 : weights_floor(a->type_name)) + weights_floor(b->type_name)),
            .by_row = quantised && !(exact_a && b->type_name[0] != 'Q'),
            .of_row = exact_a ? 0 : CANCELLING};
}

static double root_mean_square(const float *row, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += (double)row[i] * (double)row[i];
    return sqrt(squares / (double)n);
}

static double larger(double x, double y) {
    return x > y ? x : y;
}

// Returns the element of a row that is out of bounds; -1: none.
static int64_t bad_element(const tolerance *t, const float *a, const float *b, int64_t n) {
    const double rms = t->of_row > 0 ? larger(root_mean_square(a, n), root_mean_square(b, n)) : 0;
    for (int64_t i = 0; i < n; i++) {
        const double of_a = (double)a[i], of_b = (double)b[i],
                     size = larger(larger(fabs(of_a), fabs(of_b)), t->of_row * rms);
        if (fabs(of_a - of_b) > t->relative * size + t->floor) return i;
    }
    return -1;
}

// Returns the largest difference of a row that is out of bounds as a whole; -1: it is not.
static int64_t bad_row(const tolerance *t, const float *a, const float *b, int64_t n) {
    double squares = 0, most = -1;
    int64_t at = -1;
    for (int64_t i = 0; i < n; i++) {
        const double apart = fabs((double)a[i] - (double)b[i]);
        squares += apart * apart;
        if (apart > most) most = apart, at = i;
    }
    const double size = larger(root_mean_square(a, n), root_mean_square(b, n));
    return sqrt(squares / (double)n) > t->relative * size + t->floor ? at : -1;
}

// --- all weights
typedef struct pair {
    const model *model[2];
    const source_tensor *tensor[2];
    float *piece[2];
    tolerance allowed;
} pair;

static const char *say(arena *mem, const pair *p, int64_t row, int64_t col, double a, double b) {
    const source_tensor *t = p->tensor[0];
    const char *where = t->n_dims > 1
                                ? arena_printf(mem, "%lld, %lld", (long long)row, (long long)col)
                                : arena_printf(mem, "%lld", (long long)row);
    const char *type_a = t->type_name, *type_b = p->tensor[1]->type_name;
    const char *from = strcmp(type_a, type_b) ? arena_printf(mem, " from %s", type_a) : "";
    return arena_printf(mem,
            "%s [%s] is %.6g in one and %.6g in the other, further apart than rounding%s to %s explains%s",
            t->name, where, a, b, from, type_b, p->allowed.by_row ? " of its row" : "");
}

static drv_status compare_tensor(arena *mem, pair *p, int64_t rows, const char **difference) {
    const source_tensor *t = p->tensor[0];
    for (int64_t row = 0; row < t->rows && !*difference; row += rows) {
        const int64_t n = t->rows - row < rows ? t->rows - row : rows;
        for (int k = 0; k < 2; k++)
            DRV_TRY(source_read_f32(&p->model[k]->source, p->tensor[k], row, n, p->piece[k]));
        for (int64_t i = 0; i < n && !*difference; i++) {
            const float *a = p->piece[0] + i * t->cols, *b = p->piece[1] + i * t->cols;
            const int64_t bad =
                    (p->allowed.by_row ? bad_row : bad_element)(&p->allowed, a, b, t->cols);
            if (bad >= 0) *difference = say(mem, p, row + i, bad, (double)a[bad], (double)b[bad]);
        }
    }
    return DRV_OK;
}

drv_status weights_difference(arena *a, const model *model_a, const model *model_b, bool exact_a,
        const char **difference) {
    drv_status status = DRV_OK;
    *difference = NULL;
    for (int i = 0; i < model_a->n_tensors && status == DRV_OK && !*difference; i++) {
        const char *name = model_a->tensors[i].entry.name;
        pair p = {.model = {model_a, model_b}};
        progress("comparing weights: %d of %d tensors", i + 1, model_a->n_tensors);
        if (model_a->adapter && adapter_find(model_a->adapter, name)) continue;
        for (int k = 0; k < 2; k++)
            p.tensor[k] = model_source_find(&p.model[k]->source, name);
        p.allowed = tolerance_of(p.tensor[0], p.tensor[1], exact_a);
        const int64_t rows = source_piece_rows(p.tensor[0], 1 << 22);
        for (int k = 0; k < 2; k++)
            p.piece[k] = mem_alloc(sizeof *p.piece[k] * (size_t)(rows * p.tensor[0]->cols));
        status = compare_tensor(a, &p, rows, difference);
        free(p.piece[0]);
        free(p.piece[1]);
    }
    progress_end();
    return status;
}
