// Each level of kernels against the reference: exactly on small integers where no rounding happens,
// within a derived bound on reals. Lengths around the vector width; guard bytes behind every
// output.
#include "harness.h"

#include <math.h>

#include "kernels/kernels.h"

enum { GUARD = 64 };
static const int64_t lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67, 129};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

typedef struct array { // n elements of type dt and a guard
    dtype dt;
    int64_t n;
    unsigned char *p;
} array;

static array make(dtype dt, int64_t n, uint64_t seed, double scale, bool integers) {
    array x = {dt, n, mem_alloc((size_t)(n * dtype_bytes(dt)) + GUARD)};
    for (int64_t i = 0; i < n; i++) {
        double v = scale * noise(seed, (uint64_t)i);
        float f = (float)(integers ? round(v) : v);
        if (dt == DT_BF16)
            ((uint16_t *)(void *)x.p)[i] = f32_to_bf16(f);
        else
            ((float *)(void *)x.p)[i] = f;
    }
    memset(x.p + n * dtype_bytes(dt), 0xA5, GUARD);
    return x;
}

static double at(const array *x, int64_t i) {
    return x->dt == DT_BF16 ? (double)bf16_to_f32(((uint16_t *)(void *)x->p)[i])
                            : (double)((float *)(void *)x->p)[i];
}

static void same(const char *what, const array *got, const array *want, double bound) {
    for (int k = 0; k < GUARD; k++)
        if (got->p[got->n * dtype_bytes(got->dt) + k] != 0xA5)
            fail_msg("%s wrote behind its output", what);
    for (int64_t i = 0; i < got->n; i++) {
        double a = at(got, i), b = at(want, i);
        if (!(fabs(a - b) <= bound * fmax(1, fabs(b))))
            fail_msg("%s: [%lld] is %.9g, reference %.9g", what, (long long)i, a, b);
    }
}

static const kernels *levels[3];
static int n_levels;

// One unit in the last place of the output type, and some roundings of fp32 inside.
static double ulp(dtype dt) {
    return dt == DT_BF16 ? 0x1p-8 : 16 * 0x1p-24;
}

#define EACH(dt, k)                                                                                \
    for (int l_ = 0; l_ < n_levels; l_++)                                                          \
        for (int t_ = 0; t_ < 2; t_++)                                                             \
            for (int i_ = 0; i_ < N_LENGTHS; i_++)                                                 \
                for (const kernels *k = levels[l_]; k; k = NULL)                                   \
                    for (dtype dt = t_ ? DT_BF16 : DT_F32, once_ = dt; once_ == dt;                \
                            once_ = (dtype)99)

static void free_all(array *x, int n) {
    for (int i = 0; i < n; i++)
        free(x[i].p);
}

static void elementwise(void **state) {
    (void)state;
    EACH(dt, k) {
        const int64_t n = lengths[i_];
        array x[] = {make(dt, n, 1, 8, true), make(dt, n, 2, 8, true), make(dt, n, 3, 1, true),
                make(dt, n, 3, 1, true)};
        k->add(dt, n, x[0].p, x[1].p, x[2].p);
        kernels_ref.add(dt, n, x[0].p, x[1].p, x[3].p);
        same("add", &x[2], &x[3], 0);
        array acc[] = {make(DT_F32, n, 4, 8, true), make(DT_F32, n, 4, 8, true)};
        k->accumulate(dt, n, x[0].p, acc[0].p);
        kernels_ref.accumulate(dt, n, x[0].p, acc[1].p);
        same("accumulate", &acc[0], &acc[1], 0);
        array r = make(DT_F32, n, 5, 1e3, false);
        const double s = k->sum_squares(DT_F32, n, r.p),
                     want = kernels_ref.sum_squares(DT_F32, n, r.p);
        assert_true(fabs(s - want) <= 1e-6 * want);
        free_all(x, 4);
        free_all(acc, 2);
        free(r.p);
    }
}

static void norms(void **state) {
    (void)state;
    enum { ROWS = 5 };
    EACH(dt, k) {
        const int64_t n = lengths[i_], m = ROWS * n;
        array x = make(dt, m, 1, 1, false), d = make(dt, m, 2, 1, false),
              w = make(DT_F32, n, 3, 1, false);
        array h[] = {make(dt, m, 4, 1, true), make(dt, m, 4, 1, true)},
              y[] = {make(dt, m, 4, 1, true), make(dt, m, 4, 1, true)};
        array r[] = {make(DT_F32, ROWS, 4, 1, true), make(DT_F32, ROWS, 4, 1, true)};
        array dx[] = {make(dt, m, 4, 1, true), make(dt, m, 4, 1, true)},
              dw[] = {make(DT_F32, n, 5, 1, false), make(DT_F32, n, 5, 1, false)};
        for (int ref = 1; ref >= 0; ref--) { // the reference first: both take its r and y
            const kernels *t = ref ? &kernels_ref : k;
            t->rmsnorm(dt, ROWS, n, x.p, d.p, w.p, 1e-5, h[ref].p, y[ref].p, r[ref].p);
            t->rmsnorm_grad(dt, ROWS, n, d.p, x.p, w.p, r[1].p, NULL, dx[ref].p, dw[ref].p);
            t->rmsnorm_grad(dt, ROWS, n, d.p, x.p, w.p, r[1].p, y[1].p, dx[ref].p, dw[ref].p);
        }
        same("h", &h[0], &h[1], ulp(dt));
        same("y", &y[0], &y[1], 2 * ulp(dt)); // h may differ by one rounding
        same("r", &r[0], &r[1], dt == DT_BF16 ? 0x1p-8 : 1e-5);
        same("dx", &dx[0], &dx[1], 4 * ulp(dt));
        same("dw", &dw[0], &dw[1], 1e-5);
        free_all(h, 2), free_all(y, 2), free_all(r, 2), free_all(dx, 2), free_all(dw, 2);
        free(x.p), free(d.p), free(w.p);
    }
}

static void activations(void **state) {
    (void)state;
    enum { ROWS = 3 };
    EACH(dt, k) {
        const int64_t n = lengths[i_];
        array gu = make(dt, 2 * ROWS * n, 1, 12, false), dy = make(dt, ROWS * n, 2, 1, false);
        array y[] = {make(dt, ROWS * n, 4, 1, true), make(dt, ROWS * n, 4, 1, true)};
        array dgu[] = {make(dt, 2 * ROWS * n, 4, 1, true), make(dt, 2 * ROWS * n, 4, 1, true)};
        for (int ref = 0; ref < 2; ref++) {
            const kernels *t = ref ? &kernels_ref : k;
            t->swiglu(dt, ROWS, n, gu.p, y[ref].p);
            t->swiglu_grad(dt, ROWS, n, dy.p, gu.p, dgu[ref].p);
        }
        same("swiglu", &y[0], &y[1], ulp(dt));
        same("swiglu_grad", &dgu[0], &dgu[1], ulp(dt));
        free_all(y, 2), free_all(dgu, 2);
        free(gu.p), free(dy.p);
        // rope: heads of 2 * length dims would be long; the length is half a head.
        const int64_t width = 3 * 2 * n;
        array x = make(dt, ROWS * width, 5, 1, false),
              table = make(DT_F32, ROWS * 2 * n, 6, 1, false);
        array z[] = {make(dt, ROWS * width, 4, 1, true), make(dt, ROWS * width, 4, 1, true)};
        k->rope(dt, ROWS, width, 2, (int)(2 * n), x.p, table.p, false, z[0].p);
        kernels_ref.rope(dt, ROWS, width, 2, (int)(2 * n), x.p, table.p, false, z[1].p);
        same("rope", &z[0], &z[1], ulp(dt));
        free_all(z, 2);
        free(x.p), free(table.p);
    }
}

static void cross_entropy(void **state) {
    (void)state;
    EACH(dt, k) {
        const int64_t n = lengths[i_];
        array l[] = {make(DT_F32, n, 1, 20, false), make(DT_F32, n, 1, 20, false)};
        const double a = k->cross_entropy(dt, n, l[0].p, n / 2, 0.5, l[0].p);
        const double b = kernels_ref.cross_entropy(dt, n, l[1].p, n / 2, 0.5, l[1].p);
        assert_true(fabs(a - b) <= 1e-5 * fmax(1, b));
        array d[] = {{dt, n, l[0].p}, {dt, n, l[1].p}};
        for (int64_t i = 0; i < n; i++)
            assert_true(fabs(at(&d[0], i) - at(&d[1], i)) <= ulp(dt));
        free_all(l, 2);
    }
}

static void adamw(void **state) {
    (void)state;
    const adamw_args a = {.lr = 1e-2,
            .beta1 = 0.9,
            .beta2 = 0.95,
            .eps = 1e-8,
            .weight_decay = 0.1,
            .c1 = 0.1,
            .c2 = 0.05,
            .grad_scale = 0.5};
    EACH(dt, k) {
        if (dt != DT_F32) continue;
        const int64_t n = lengths[i_];
        array x[2][4];
        array w[] = {make(DT_BF16, n, 9, 1, true), make(DT_BF16, n, 9, 1, true)};
        for (int ref = 0; ref < 2; ref++) {
            for (int j = 0; j < 4; j++)
                x[ref][j] = make(DT_F32, n, (uint64_t)j, 1, false);
            for (int64_t i = 0; i < n; i++)
                ((float *)(void *)x[ref][2].p)[i] = fabsf(((float *)(void *)x[ref][2].p)[i]);
            (ref ? &kernels_ref : k)
                    ->adamw(DT_F32, n, x[ref][0].p, x[ref][1].p, x[ref][2].p, x[ref][3].p, &a,
                            (uint16_t *)(void *)w[ref].p);
        }
        for (int j = 0; j < 4; j++)
            same("adamw", &x[0][j], &x[1][j], 1e-6);
        for (int64_t i = 0; i < n; i++)
            assert_true(at(&x[0][3], i) == 0);
        same("adamw's copy", &w[0], &w[1], 0x1p-8);
        for (int ref = 0; ref < 2; ref++)
            free_all(x[ref], 4);
        free_all(w, 2);
    }
}

static void generation(void **state) {
    (void)state;
    EACH(dt, k)
    for (int i = 0; i < N_LENGTHS; i++) {
        const int64_t n = lengths[i], d = lengths[i_];
        array x = make(dt, d, 1, 1, false), w = make(dt, n * d, 2, 1, false),
              v = make(dt, n * d, 3, 1, false), scores = make(DT_F32, n, 4, 1, false);
        array y[] = {make(dt, n, 4, 1, false), make(dt, n, 5, 1, false), make(dt, d, 4, 1, false),
                make(dt, d, 5, 1, false)};
        k->row_times_matrix(dt, n, d, x.p, w.p, y[0].p);
        kernels_ref.row_times_matrix(dt, n, d, x.p, w.p, y[1].p);
        same("row_times_matrix", &y[0], &y[1], 8 * ulp(dt)); // sums of up to 129 products below 1
        k->cached_attention(dt, n, d, x.p, w.p, v.p, scores.p, y[2].p);
        kernels_ref.cached_attention(dt, n, d, x.p, w.p, v.p, scores.p, y[3].p);
        same("cached_attention", &y[2], &y[3], 2 * ulp(dt)); // an average of numbers below 1
        free_all(y, 4);
        free(x.p), free(w.p), free(v.p), free(scores.p);
    }
}

static void special_values(void **state) {
    (void)state;
    for (int l = 0; l < n_levels; l++) {
        float row[] = {NAN, 1, 2}, gu[] = {NAN, 1};
        assert_true(isnan(levels[l]->cross_entropy(DT_F32, 3, row, 1, 1, row)));
        float y;
        levels[l]->swiglu(DT_F32, 1, 1, gu, &y);
        assert_true(isnan(y));
    }
}

int main(void) {
    for (int l = CPU_AVX2; l <= (int)cpu_detect(); l++)
        levels[n_levels++] = kernels_for((cpu_level)l);
    const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise), cmocka_unit_test(norms),
            cmocka_unit_test(activations), cmocka_unit_test(cross_entropy), cmocka_unit_test(adamw),
            cmocka_unit_test(generation), cmocka_unit_test(special_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
