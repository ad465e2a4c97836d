// Low-rank branches against PEFT (tools/golden_adapters.py, tools/golden_lora.py): logits of its
// adapters and gradients in double; dropout that does not see how rows are batched; the counts of
// published models.
#include "harness.h"

#include <math.h>

#include "source/safetensors.h"
#include "programs/batch_feed.h"
#include "weights/lora_state.h"

// --- PEFT's adapters
typedef struct peft_case {
    const char *name, *base;
} peft_case;
static const peft_case cases[] = {{"plain", "tied"}, {"patterns", "untied_llama3"},
        {"one_layer", "tied"}, {"expressions", "tied"}};
enum { N_CASES = sizeof cases / sizeof *cases, N_WITH_GRADIENTS = 3 };

typedef struct golden {
    st_file file;
    int64_t rows, seq;
} golden;

static double *numbers(arena *a, const golden *g, const char *name, int64_t *n) {
    const st_tensor *t = st_find(&g->file, name);
    if (!t) fail_msg("no \"%s\" in the golden file", name);
    *n = t->elements;
    double *x = ARENA_ARRAY(a, double, *n);
    float *f = ARENA_ARRAY(a, float, *n);
    if (t->type == ST_F64) {
        OK(st_read_raw(&g->file, t, 0, t->bytes, x));
    } else {
        OK(st_read_f32(&g->file, t, 0, *n, f));
        for (int64_t i = 0; i < *n; i++)
            x[i] = (double)f[i];
    }
    return x;
}

// Base and adapter in fp32, the rows of the golden file in a micro-batch.
static test_run *open_case(arena *a, const peft_case *of, const char *file, golden *want) {
    const char *base = golden_path(a, of->base),
               *folder = golden_path(a, arena_printf(a, "adapters/%s", of->name));
    OK(st_open(a, path_join(a, folder, file), &want->file));
    const st_tensor *tokens = st_find(&want->file, "tokens");
    want->rows = tokens->dim[0];
    want->seq = tokens->dim[1];
    const char *sets[] = {arena_printf(a, "model.from=%s", base),
            arena_printf(a, "lora.adapter=%s", folder), "training.precision=fp32",
            arena_printf(a, "data.sequence_length=%lld", (long long)want->seq),
            arena_printf(a, "training.global_batch_size=%lld", (long long)want->rows),
            arena_printf(a, "training.micro_batch_size=%lld", (long long)want->rows)};
    test_run *r = test_run_open(sets, sizeof sets / sizeof *sets);
    OK(lora_load_eval(&r->p.held, base, folder));
    int64_t n;
    const double *ids = numbers(a, want, "tokens", &n);
    int32_t *words = ARENA_ARRAY(a, int32_t, 3 * n), *labels = words + n, *position = labels + n;
    for (int64_t i = 0; i < n; i++) {
        words[i] = (int32_t)ids[i];
        position[i] = (int32_t)(i % want->seq);
        labels[i] = (i + 1) % want->seq ? (int32_t)ids[i + 1] : -1;
    }
    OK(backend_write(r->p.held.b, "tokens", 0, 4 * n, words));
    OK(backend_write(r->p.held.b, "labels", 0, 4 * n, labels));
    OK(backend_write(r->p.held.b, "position", 0, 4 * n, position));
    return r;
}

static void close_case(test_run *r, golden *g) {
    test_run_close(r);
    st_close(&g->file);
}

static void compare(const char *what, const char *name, const double *got, const double *want,
        int64_t n, double bound) {
    const double error = relative_error(got, want, n);
    if (!(error <= bound))
        fail_msg("%s, %s: relative error %.3g, bound %.3g", what, name, error, bound);
}

TEST(logits_of_adapters) {
    for (int i = 0; i < N_CASES; i++) {
        golden g;
        int64_t n;
        executable *e;
        test_run *r = open_case(a, &cases[i], "golden.safetensors", &g);
        const llama_opts o = {.rows = g.rows, .seq = g.seq, .dt = r->p.held.dt};
        OK(backend_compile(r->a, r->p.held.b,
                llama_build(r->a, &r->p.held.params, LLAMA_LOGITS, &o), NULL, &e));
        OK(backend_run(r->p.held.b, e));
        const double *want = numbers(a, &g, "logits", &n);
        double *got = ARENA_ARRAY(a, double, n);
        float *logits = ARENA_ARRAY(a, float, n);
        OK(backend_read(r->p.held.b, "logits", 0, 4 * n, logits));
        for (int64_t k = 0; k < n; k++)
            got[k] = (double)logits[k];
        compare(cases[i].name, "logits", got, want, n, 1e-5);
        close_case(r, &g);
    }
}

// The branch would have to change the embedding too: refused, although the file has lm_head.weight.
TEST(adapter_of_a_tied_head) {
    const char *base = golden_with_head(a, true, true), *folder = golden_path(a, "adapters/head");
    const char *sets[] = {arena_printf(a, "model.from=%s", base), "training.precision=fp32",
            "data.sequence_length=8", "training.global_batch_size=1"};
    test_run *r = test_run_open(sets, sizeof sets / sizeof *sets);
    FAILS(lora_load_eval(&r->p.held, base, folder), DRV_E_DATA,
            "belongs to \"lm_head.weight\", of which base");
    test_run_close(r);
}

static void check_part(arena *a, const golden *g, test_run *r, const param *w, int part) {
    int64_t n;
    const double *want = numbers(a, g, arena_printf(a, "grad.%s", w->part[part].hf_name), &n);
    double *got = ARENA_ARRAY(a, double, n);
    float *grad = ARENA_ARRAY(a, float, n);
    assert_true(n == w->part[part].rows * w->dim[1]);
    OK(backend_read(r->p.held.b, arena_printf(a, "grad.%s", w->name),
            4 * w->part[part].row * w->dim[1], 4 * n, grad));
    for (int64_t k = 0; k < n; k++)
        got[k] = (double)grad[k];
    compare("gradient", w->part[part].hf_name, got, want, n, 1e-5);
}

TEST(gradients_of_adapters) {
    for (int i = 0; i < N_WITH_GRADIENTS; i++) {
        golden g;
        int64_t n, checked = 0;
        test_run *r = open_case(a, &cases[i], "gradients.safetensors", &g);
        const double dloss = 1 / (double)(g.rows * (g.seq - 1));
        const double loss = test_run_step(r, dloss) * dloss, want = *numbers(a, &g, "loss", &n);
        if (!(fabs(loss - want) <= 1e-5 * want)) fail_msg("loss %.9g, expected %.9g", loss, want);
        for (int k = 0; k < r->p.held.params.n; k++) {
            const param *w = &r->p.held.params.p[k];
            if (!w->is_adapter)
                assert_null(graph_find(r->p.step_graph, arena_printf(a, "grad.%s", w->name)));
            for (int part = 0; part < w->n_parts && w->is_adapter; part++, checked++)
                check_part(a, &g, r, w, part);
        }
        const int in_head = i == 1 ? 2 : 0; // A and B of lm_head, which is not trained here
        assert_int_equal(checked + in_head, g.file.n - 2);
        close_case(r, &g);
    }
}

// --- dropout
// Losses of four rows, one by one and all at once: the dropped elements belong to the row. In fp32,
// where the sum of a product does not depend on how many rows there are. The seed decides nothing
// else here.
static double loss_of_rows(int64_t micro, int64_t first_row, double rate, int seed) {
    arena *a = arena_new("rows");
    const char *sets[] = {"model.preset=tiny", "lora.rank=4", "training.precision=fp32",
            "lora.target_modules=all-linear", arena_printf(a, "lora.dropout=%g", rate),
            "data.sequence_length=32", "training.global_batch_size=4",
            arena_printf(a, "training.seed=%d", seed),
            arena_printf(a, "training.micro_batch_size=%lld", (long long)micro)};
    test_run *run = test_run_open(sets, sizeof sets / sizeof *sets);
    for (int i = 0; i < run->p.held.params.n; i++) {
        const param *w = &run->p.held.params.p[i];
        for (int64_t k = 0; w->init != INIT_ONES && k < param_elements(w); k++)
            element_write(run->p.held.b, graph_find(run->p.step_graph, w->name), k,
                    noise(3 + (uint64_t)i, (uint64_t)k) / (w->is_adapter ? 4 : 16));
    }
    batch all = batch_new(a, 4, 32);
    for (int i = 0; i < 4 * 32; i++) {
        all.tokens[i] = 7 * i % 256;
        all.labels[i] = 5 * i % 256;
        all.position[i] = i % 32;
    }
    all.filled = 4;
    all.rows_before = first_row;
    double sum = 0;
    for (int64_t i = 0; i < 4 / micro; i++) {
        OK(batch_feed(&all, &run->p, INPUT_ALONE, i));
        sum += test_run_step(run, 1);
    }
    test_run_close(run);
    arena_free(a);
    return sum;
}

TEST(dropout_belongs_to_the_row) {
    const int64_t far = ((int64_t)5 << 32) + 7; // beyond 32 bits
    const double want = loss_of_rows(4, far, 0.3, 1);
    for (int64_t micro = 1; micro <= 2; micro++) {
        const double got = loss_of_rows(micro, far, 0.3, 1);
        if (!(fabs(got - want) <= 1e-9 * want))
            fail_msg("micro-batches of %lld: loss %.12g, of 4: %.12g", (long long)micro, got, want);
    }
    assert_true(fabs(loss_of_rows(4, far, 0, 1) - want) > 1e-4 * want);
    assert_true(fabs(loss_of_rows(4, 7, 0.3, 1) - want) > 1e-4 * want);
    assert_true(fabs(loss_of_rows(4, far, 0.3, 2) - want) > 1e-4 * want);
    assert_true(loss_of_rows(4, far, 0, 2) == loss_of_rows(4, far, 0, 1));
}

// --- counts
typedef struct count_case {
    const char *preset, *targets;
    int64_t rank, trained;
} count_case;

TEST(published_counts) {
    static const count_case counts[] = {{"llama-3.1-8b", "[q_proj, v_proj]", 16, 6815744},
            {"llama-3.1-8b", "all-linear", 16, 41943040},
            {"llama-2-7b", "[q_proj, v_proj]", 8, 4194304},
            {"llama-3.1-8b", ".*layers\\.(0|1)\\..*\\.(k|v)_proj", 16, 2 * 2 * 16 * (4096 + 1024)},
            // as people write them for PEFT, in Python's syntax
            {"llama-3.1-8b", "model\\.layers\\.\\d+\\.self_attn\\.(?:q|v)_proj", 16, 6815744},
            {"llama-3.1-8b", ".*\\.layers\\.[\\d]\\..*q_proj", 16, 10 * 16 * (4096 + 4096)},
            {"llama-3.1-8b", ".*\\.(?!k_)\\w+_proj", 16, 41943040 - 32 * 16 * (4096 + 1024)}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *sets[] = {arena_printf(a, "model.preset=%s", counts[i].preset),
                arena_printf(a, "lora.rank=%lld", (long long)counts[i].rank),
                arena_printf(a, "lora.target_modules=%s", counts[i].targets),
                "training.global_batch_size=1", "data.sequence_length=512",
                "training.recompute=full"};
        run_config c;
        programs p;
        backend *null;
        OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &c));
        null = backend_open_planner(a, false);
        OK(programs_build(a, &c, &p));
        OK(programs_load(a, null, &p));
        const memory_plan m = programs_memory(&p);
        const int64_t n = counts[i].trained, all = model_parameters(&c.model) + n;
        assert_int_equal(held_trained(&p.held), n);
        assert_int_equal(m.gradients, 4 * n);
        assert_int_equal(m.optimizer, 12 * n); // master and two moments
        assert_true(m.weights >= 2 * all && m.weights < 2 * all + all / 1000);
        // 4 a frozen weight and token, and nothing for the first layer's input
        const double frozen = 4.0 * (double)model_parameters(&c.model);
        const double flops = programs_flops_per_token(&p, false);
        assert_true(flops < 1.01 * frozen && flops > 0.85 * frozen);
    }
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
