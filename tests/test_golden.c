// Logits, loss, every gradient and twenty training steps against what PyTorch and transformers gave
// (tools/golden.py; in double, the losses in float). Nothing is random: weights, tokens and the
// order of rows are in the golden files.
#include "harness.h"

#include <math.h>

#include "source/safetensors.h"
#include "ir/hyper.h"
#include "train/schedule.h"

enum { ROWS = 4, SEQ = 48, STEPS = 20 };

// --- the golden file of a model
typedef struct golden {
    arena *a;
    const char *folder;
    st_file file;
    int32_t tokens[ROWS * SEQ];
} golden;

static golden golden_open(const char *model) {
    golden out = {.a = arena_new("golden")};
    float tokens[ROWS * SEQ];
    out.folder = golden_path(out.a, model);
    OK(st_open(out.a, path_join(out.a, out.folder, "golden.safetensors"), &out.file));
    OK(st_read_f32(&out.file, st_find(&out.file, "tokens"), 0, ROWS * SEQ, tokens));
    for (int i = 0; i < ROWS * SEQ; i++)
        out.tokens[i] = (int32_t)tokens[i];
    return out;
}

static void golden_close(golden *from) {
    st_close(&from->file);
    arena_free(from->a);
}

// The values of a tensor, which must have `n_values` elements.
static double *golden_values(golden *from, const char *name, int64_t n_values) {
    const st_tensor *t = st_find(&from->file, name);
    if (!t) fail_msg("no \"%s\" in the golden file", name);
    assert_int_equal(t->elements, n_values);
    double *out = ARENA_ARRAY(from->a, double, n_values);
    if (t->type == ST_F64) {
        OK(st_read_raw(&from->file, t, 0, t->bytes, out));
        return out;
    }
    float *values = ARENA_ARRAY(from->a, float, n_values);
    OK(st_read_f32(&from->file, t, 0, n_values, values));
    for (int64_t i = 0; i < n_values; i++)
        out[i] = (double)values[i];
    return out;
}

// --- the same model here
static test_run *open_run(golden *from, const char *type, int micro_batch) {
    const char *sets[] = {arena_printf(from->a, "model.from=%s", from->folder),
            "model.weights=load", arena_printf(from->a, "data.sequence_length=%d", SEQ),
            arena_printf(from->a, "training.global_batch_size=%d", ROWS),
            arena_printf(from->a, "training.micro_batch_size=%d", micro_batch),
            arena_printf(from->a, "training.precision=%s", type), "optimizer.lr=0.01",
            "schedule.type=constant", "schedule.warmup_steps=0"};
    test_run *run = test_run_open(sets, sizeof sets / sizeof *sets);
    OK(state_load_weights(&run->p.held, from->folder));
    return run;
}

// Rows first .. first + n_rows - 1 of the batch rolled by `roll`, with transformers' labels: the
// next token.
static void put_rows(const golden *from, test_run *run, int roll, int first, int n_rows) {
    int32_t tokens[ROWS * SEQ], labels[ROWS * SEQ], position[ROWS * SEQ];
    for (int i = 0; i < n_rows; i++) {
        const int32_t *row = from->tokens + (first + i + 100 * ROWS - roll) % ROWS * SEQ;
        for (int t = 0; t < SEQ; t++) {
            tokens[i * SEQ + t] = row[t];
            labels[i * SEQ + t] = t + 1 < SEQ ? row[t + 1] : -1;
            position[i * SEQ + t] = t;
        }
    }
    const int64_t bytes = 4 * n_rows * SEQ;
    OK(backend_write(run->p.held.b, "tokens", 0, bytes, tokens));
    OK(backend_write(run->p.held.b, "labels", 0, bytes, labels));
    OK(backend_write(run->p.held.b, "position", 0, bytes, position));
}

// Elements of a named tensor from `first` on, as doubles.
static double *run_values(test_run *run, const char *name, dtype dt, int64_t first, int64_t n) {
    double *out = ARENA_ARRAY(run->a, double, n);
    void *raw = arena_alloc(run->a, (size_t)(n * dtype_bytes(dt)));
    OK(backend_read(run->p.held.b, name, first * dtype_bytes(dt), n * dtype_bytes(dt), raw));
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)(dt == DT_BF16 ? bf16_to_f32(((const uint16_t *)raw)[i])
                                        : ((const float *)raw)[i]);
    return out;
}

// --- one forward and backward pass
typedef struct pass_case {
    const char *model, *precision;
    double logits, gradients, loss; // bounds of relative errors
} pass_case;

static void expect_close(const pass_case *c, const char *what, const double *got,
        const double *want, int64_t n, double bound) {
    const double error = relative_error(got, want, n);
    if (!(error <= bound))
        fail_msg("%s in %s: %s: relative error %.3g, bound %.3g", c->model, c->precision, what,
                error, bound);
}

static void check_logits(const pass_case *c, golden *from, test_run *run) {
    const llama_opts opts = {.rows = ROWS, .seq = SEQ, .dt = run->p.held.dt};
    const int64_t n = ROWS * SEQ * run->c.model.vocab_size;
    executable *forward;
    graph *g = llama_build(run->a, &run->p.held.params, LLAMA_LOGITS, &opts);
    OK(backend_compile(run->a, run->p.held.b, g, NULL, &forward));
    put_rows(from, run, 0, 0, ROWS);
    OK(backend_run(run->p.held.b, forward));
    expect_close(c, "logits", run_values(run, "logits", run->p.held.dt, 0, n),
            golden_values(from, "logits", n), n, c->logits);
}

// A weight here may be several of Hugging Face's, one after the other (q, k and v).
static void check_gradient(const pass_case *c, golden *from, test_run *run, const param *w) {
    const int64_t cols = w->n_dims == 2 ? w->dim[1] : 1;
    const char *name = arena_printf(from->a, "grad.%s", w->name);
    for (int i = 0; i < w->n_parts; i++) {
        const param_part *part = &w->part[i];
        const int64_t n = part->rows * cols;
        const char *theirs = arena_printf(from->a, "grad.%s", part->hf_name);
        double *got = run_values(run, name, DT_F32, part->row * cols, n);
        if (w == run->p.held.params.head && w == run->p.held.params.embedding) { // both uses
            const double *second = run_values(run, arena_printf(from->a, "%s.second", name), DT_F32,
                    part->row * cols, n);
            for (int64_t k = 0; k < n; k++)
                got[k] += second[k];
        }
        expect_close(c, theirs, got, golden_values(from, theirs, n), n, c->gradients);
    }
}

static void check_pass(const pass_case *c) {
    golden from = golden_open(c->model);
    test_run *run = open_run(&from, c->precision, ROWS);
    check_logits(c, &from, run);
    put_rows(&from, run, 0, 0, ROWS);
    const double dloss = 1.0 / (ROWS * (SEQ - 1)), loss = test_run_step(run, dloss) * dloss;
    const double want = *golden_values(&from, "loss", 1);
    if (!(fabs(loss - want) <= c->loss * want))
        fail_msg("%s in %s: loss %.9g, expected %.9g", c->model, c->precision, loss, want);
    for (int i = 0; i < run->p.held.params.n; i++)
        check_gradient(c, &from, run, &run->p.held.params.p[i]);
    test_run_close(run);
    golden_close(&from);
}

// bf16: each stored activation adds a relative error of at most 2^-9 (uniform: 2^-9 / sqrt 3 root
// mean square), about 9 in each of the 2 layers and 4 outside; they add in quadrature, once forward
// and once more backward, and a product of two rounded factors has both their errors.
TEST(a_pass_is_that_of_transformers) {
    const double forward = 0x1p-9 * sqrt(9 * 2 + 4), backward = 2 * sqrt(2.0) * forward;
    const pass_case cases[] = {
            {"tied", "fp32", 1e-5, 1e-5, 1e-5},
            {"untied_llama3", "fp32", 1e-5, 1e-5, 1e-5},
            {"mistral", "fp32", 1e-5, 1e-5, 1e-5},
            {"qwen2_window", "fp32", 1e-5, 1e-5, 1e-5},
            {"qwen2", "fp32", 1e-5, 1e-5, 1e-5},
            {"qwen2_tied", "fp32", 1e-5, 1e-5, 1e-5},
            {"qwen3", "fp32", 1e-5, 1e-5, 1e-5},
            {"qwen3_untied", "fp32", 1e-5, 1e-5, 1e-5},
            {"smollm3", "fp32", 1e-5, 1e-5, 1e-5},
            {"tied", "bf16", 2 * forward, 2 * backward, 1e-3},
            {"untied_llama3", "bf16", 2 * forward, 2 * backward, 1e-3},
            {"mistral", "bf16", 2 * forward, 2 * backward, 1e-3},
            {"qwen2", "bf16", 2 * forward, 2 * backward, 1e-3},
            {"qwen3", "bf16", 2 * forward, 2 * backward, 1e-3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_pass(&cases[i]);
}

// --- training
typedef struct training_case {
    const char *model;
    int micro_batch; // rows; fewer than ROWS are accumulated, which must not change the result
} training_case;

// One step of AdamW on the batch rolled by its index; the loss before the update.
static double train_step(const golden *from, test_run *run, int step, int micro_batch) {
    const double dloss = 1.0 / (ROWS * (SEQ - 1));
    double loss = 0;
    for (int first = 0; first < ROWS; first += micro_batch) {
        put_rows(from, run, step, first, micro_batch);
        loss += test_run_step(run, dloss) * dloss;
    }
    const double hyper[N_HYPER] = {schedule_lr(&run->c, step + 1), 1 - pow(0.9, step + 1),
            1 - pow(0.95, step + 1), 1, step + 1};
    OK(backend_write(run->p.held.b, "hyper", 0, sizeof hyper, hyper));
    OK(backend_run(run->p.held.b, run->p.update));
    return loss;
}

static void check_training(const training_case *c) {
    golden from = golden_open(c->model);
    test_run *run = open_run(&from, "fp32", c->micro_batch);
    const double *want = golden_values(&from, "losses", STEPS);
    for (int step = 0; step < STEPS; step++) {
        const double loss = train_step(&from, run, step, c->micro_batch);
        if (!(fabs(loss - want[step]) <= 1e-4 * want[step]))
            fail_msg("%s, micro-batches of %d, step %d: loss %.7g, PyTorch %.7g", c->model,
                    c->micro_batch, step + 1, loss, want[step]);
    }
    test_run_close(run);
    golden_close(&from);
}

TEST(twenty_steps_are_those_of_pytorch) {
    const training_case cases[] = {{"tied", ROWS}, {"untied_llama3", ROWS}, {"tied", 1},
            {"mistral", ROWS}, {"qwen2", ROWS}, {"qwen2_tied", 2}, {"qwen3", ROWS},
            {"qwen3_untied", 2}, {"smollm3", ROWS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_training(&cases[i]);
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
