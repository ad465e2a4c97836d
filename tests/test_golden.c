// Logits, loss, every gradient and twenty training steps against what PyTorch and transformers gave
// (tools/golden.py; in double, the losses in float).
#include "harness.h"

#include <math.h>

#include "ckpt/safetensors.h"
#include "train/schedule.h"

enum { ROWS = 4, SEQ = 48, VOCAB = 96, STEPS = 20 };

typedef struct golden {
    arena *a;
    const char *folder;
    st_file file;
    int32_t tokens[ROWS * SEQ];
} golden;

static golden open_golden(const char *name) {
    golden g = {.a = arena_new("golden")};
    g.folder = golden_path(g.a, name);
    OK(st_open(g.a, path_join(g.a, g.folder, "golden.safetensors"), &g.file));
    float t[ROWS * SEQ];
    OK(st_read_f32(&g.file, st_find(&g.file, "tokens"), 0, ROWS * SEQ, t));
    for (int i = 0; i < ROWS * SEQ; i++)
        g.tokens[i] = (int32_t)t[i];
    return g;
}

static double *doubles(golden *g, const char *name, int64_t *n) {
    const st_tensor *t = st_find(&g->file, name);
    if (!t) fail_msg("no \"%s\" in the golden file", name);
    *n = t->elements;
    double *x = ARENA_ARRAY(g->a, double, t->elements);
    if (t->type == ST_F64) {
        OK(st_read_raw(&g->file, t, 0, t->bytes, x));
    } else {
        float *f = ARENA_ARRAY(g->a, float, t->elements);
        OK(st_read_f32(&g->file, t, 0, t->elements, f));
        for (int64_t i = 0; i < t->elements; i++)
            x[i] = (double)f[i];
    }
    return x;
}

static test_run *open_run(golden *g, const char *type, int micro) {
    const char *sets[] = {arena_printf(g->a, "model.from=%s", g->folder), "model.weights=load",
            "data.sequence_length=48", arena_printf(g->a, "training.global_batch_size=%d", ROWS),
            arena_printf(g->a, "training.micro_batch_size=%d", micro),
            arena_printf(g->a, "training.precision=%s", type), "optimizer.lr=0.01",
            "schedule.type=constant", "schedule.warmup_steps=0"};
    test_run *r = test_run_open(sets, 9);
    OK(state_load_weights(&r->p, g->folder));
    return r;
}

// Rows first .. first + n of the batch rolled by `roll`, as transformers' labels: the next token.
static void put_rows(const golden *g, test_run *r, int roll, int first, int n) {
    int32_t tokens[ROWS * SEQ], labels[ROWS * SEQ], position[ROWS * SEQ];
    for (int i = 0; i < n; i++)
        for (int t = 0; t < SEQ; t++) {
            const int32_t *row = g->tokens + (first + i - roll + 100 * ROWS) % ROWS * SEQ;
            tokens[i * SEQ + t] = row[t];
            labels[i * SEQ + t] = t + 1 < SEQ ? row[t + 1] : -1;
            position[i * SEQ + t] = t;
        }
    backend *b = r->p.b;
    OK(backend_write(b, 0, "tokens", 0, 4 * n * SEQ, tokens));
    OK(backend_write(b, 0, "labels", 0, 4 * n * SEQ, labels));
    OK(backend_write(b, 0, "position", 0, 4 * n * SEQ, position));
}

static void check_logits(golden *g, test_run *r, double bound) {
    llama_opts o = {.rows = ROWS, .seq = SEQ, .dt = r->p.dt};
    executable *e;
    OK(backend_compile(r->a, r->p.b, llama_build(r->a, &r->p.params, LLAMA_LOGITS, &o), NULL, &e));
    put_rows(g, r, 0, 0, ROWS);
    OK(backend_run(r->p.b, e));
    int64_t n;
    double *want = doubles(g, "logits", &n), *got = ARENA_ARRAY(g->a, double, n);
    for (int64_t i = 0; i < n; i++) {
        float f;
        uint16_t h;
        if (r->p.dt == DT_BF16) {
            OK(backend_read(r->p.b, 0, "logits", 2 * i, 2, &h));
            f = bf16_to_f32(h);
        } else {
            OK(backend_read(r->p.b, 0, "logits", 4 * i, 4, &f));
        }
        got[i] = (double)f;
    }
    const double error = relative_error(got, want, n);
    if (!(error <= bound)) fail_msg("logits: relative error %.3g, bound %.3g", error, bound);
}

static void check_gradients(golden *g, test_run *r, double bound, double loss_bound) {
    const double dloss = 1.0 / (ROWS * (SEQ - 1));
    put_rows(g, r, 0, 0, ROWS);
    const double loss = test_run_step(r, dloss) * dloss;
    int64_t n;
    const double want_loss = *doubles(g, "loss", &n);
    if (!(fabs(loss - want_loss) <= loss_bound * want_loss))
        fail_msg("loss %.9g, expected %.9g", loss, want_loss);
    for (int i = 0; i < r->p.params.n; i++) {
        const param *w = &r->p.params.p[i];
        const int64_t cols = w->n_dims == 2 ? w->dim[1] : 1;
        for (int k = 0; k < w->n_parts; k++) {
            double *want = doubles(g, arena_printf(g->a, "grad.%s", w->part[k].hf_name), &n),
                   *got = ARENA_ARRAY(g->a, double, n);
            assert_true(n == w->part[k].rows * cols);
            float *f = ARENA_ARRAY(g->a, float, n);
            OK(backend_read(r->p.b, 0, arena_printf(g->a, "grad.%s", w->name),
                    4 * w->part[k].row * cols, 4 * n, f));
            for (int64_t j = 0; j < n; j++)
                got[j] = (double)f[j];
            const double error = relative_error(got, want, n);
            if (!(error <= bound))
                fail_msg("gradient of %s: relative error %.3g, bound %.3g", w->part[k].hf_name,
                        error, bound);
        }
    }
}

static void check_case(const char *name) {
    golden g = open_golden(name);
    test_run *r = open_run(&g, "fp32", ROWS);
    check_logits(&g, r, 1e-5);
    check_gradients(&g, r, 1e-5, 1e-5);
    test_run_close(r);
    // bf16: each stored activation adds a relative error of at most 2^-9 (uniform: 2^-9 / sqrt 3
    // root mean square), about 9 a layer and 4 outside; they add in quadrature, once forward and
    // once more backward, and a product of two rounded factors has both their errors.
    const double forward = 0x1p-9 * sqrt(9 * 2 + 4), backward = 2 * sqrt(2.0) * forward;
    r = open_run(&g, "bf16", ROWS);
    check_logits(&g, r, 2 * forward);
    check_gradients(&g, r, 2 * backward, 1e-3);
    test_run_close(r);
    st_close(&g.file);
    arena_free(g.a);
}

static void tied(void **state) {
    (void)state;
    check_case("tied");
}

static void untied_llama3(void **state) {
    (void)state;
    check_case("untied_llama3");
}

static void check_training(const char *name, int micro) {
    golden g = open_golden(name);
    test_run *r = open_run(&g, "fp32", micro);
    backend *b = r->p.b;
    int64_t n;
    const double *want = doubles(&g, "losses", &n), dloss = 1.0 / (ROWS * (SEQ - 1));
    assert_int_equal(n, STEPS);
    for (int step = 0; step < STEPS; step++) {
        double loss = 0;
        for (int first = 0; first < ROWS; first += micro) {
            put_rows(&g, r, step, first, micro);
            loss += test_run_step(r, dloss) * dloss;
        }
        if (!(fabs(loss - want[step]) <= 1e-4 * want[step]))
            fail_msg("%s, step %d: loss %.7g, PyTorch %.7g", name, step + 1, loss, want[step]);
        const double hyper[] = {schedule_lr(&r->c, step + 1), 1 - pow(0.9, step + 1),
                1 - pow(0.95, step + 1), 1};
        OK(backend_write(b, 0, "hyper", 0, sizeof hyper, hyper));
        OK(backend_run(b, r->p.update));
    }
    test_run_close(r);
    st_close(&g.file);
    arena_free(g.a);
}

static void twenty_steps(void **state) {
    (void)state;
    check_training("tied", ROWS);
    check_training("untied_llama3", ROWS);
    check_training("tied", 1); // accumulation equals the large batch
}

int main(void) {
    par_set_threads(2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(tied), cmocka_unit_test(untied_llama3),
            cmocka_unit_test(twenty_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
