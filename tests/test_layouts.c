// The same steps on several ranks as on one: losses, norms, gradients and weights. Ranks are
// threads, each with its programs and its back end, as a process of a run has them.
#include "ranks.h"

#include "train/step.h"

enum { STEPS = 3, MAX_SETS = 16 };

typedef struct layout_run { // what a run of STEPS steps came to
    const char *sets[MAX_SETS];
    int n_sets, ranks;
    double loss[STEPS], grad_norm[STEPS], param_norm[STEPS];
    float *weights; // of rank 0; free it
    int64_t n_weights;
} layout_run;

// Rows of random tokens with two documents each, and some labels that do not count.
static batch make_batch(arena *a, const run_config *cfg, int step) {
    batch b = batch_new(a, cfg->global_batch_size, cfg->sequence_length);
    const int64_t n = b.rows * b.row_tokens, half = b.row_tokens / 2 + 1;
    for (int64_t i = 0; i < n; i++) {
        const double x = 0.5 + 0.5 * noise((uint64_t)step + 5, (uint64_t)i);
        b.tokens[i] = (int32_t)(x * (double)cfg->model.vocab_size);
        const int64_t in_row = i % b.row_tokens;
        b.position[i] = (int32_t)(in_row < half ? in_row : in_row - half);
    }
    for (int64_t i = 0; i < n; i++) {
        b.labels[i] = i + 1 < n && b.position[i + 1] ? b.tokens[i + 1] : -1;
        if (i % 11 == 3) b.labels[i] = -1;
        b.counted += b.labels[i] >= 0;
    }
    b.filled = b.rows;
    return b;
}

// All weights' masters, whole, on every rank.
static drv_status take_weights(arena *a, const programs *p, layout_run *out) {
    for (int pass = 0; pass < 2; pass++) {
        int64_t n = 0;
        for (int i = 0; i < p->params.n; i++) {
            const param *w = &p->params.p[i];
            if (pass)
                DRV_TRY(backend_read(p->b, 0, programs_master(a, p, w), 0, 4 * param_elements(w),
                        out->weights + n));
            n += param_elements(w);
        }
        if (!pass) out->weights = mem_alloc(sizeof(float) * (size_t)n);
        out->n_weights = n;
    }
    return DRV_OK;
}

static drv_status one_rank(comm *c, arena *a, layout_run *r) {
    run_config cfg;
    programs p;
    backend *b;
    DRV_TRY(config_from_sets(a, r->sets, r->n_sets, &cfg));
    DRV_TRY(config_set_ranks(&cfg, comm_size(c)));
    const mesh m = programs_mesh(&cfg);
    DRV_TRY(backend_open(a, "cpu", &b));
    backend_join(b, c, &m);
    DRV_TRY(programs_build(a, &cfg, &p));
    DRV_TRY(programs_load(a, b, &p));
    DRV_TRY(programs_check_held(&p));
    DRV_TRY(programs_init_weights(&p));
    stepper s = stepper_new(a, &p, c, &m);
    const double hyper[4] = {1e-3, 0.1, 0.05, 1};
    for (int step = 0; step < STEPS; step++) {
        const batch global = make_batch(a, &cfg, step);
        double loss, grad_norm, param_norm;
        s.step = step + 1;
        DRV_TRY(stepper_gradients(&s, &global, NULL, NULL, &loss));
        DRV_TRY(stepper_update(&s, hyper, &grad_norm, &param_norm));
        if (comm_rank(c) != 0) continue;
        r->loss[step] = loss;
        r->grad_norm[step] = grad_norm;
        r->param_norm[step] = param_norm;
    }
    if (comm_rank(c) == 0) DRV_TRY(take_weights(a, &p, r));
    backend_close(b);
    return DRV_OK;
}

static drv_status run_rank(comm *c, void *ctx) {
    arena *a = arena_new("layout");
    const drv_status status = one_rank(c, a, ctx);
    arena_free(a);
    return status;
}

static layout_run run_layout(int ranks, const char *const *sets, int n_sets) {
    layout_run r = {.ranks = ranks,
            .n_sets = 6,
            .sets = {"model.preset=tiny", "model.num_hidden_layers=2", "data.sequence_length=40",
                    "training.global_batch_size=8", "training.micro_batch_size=1",
                    "optimizer.clip_grad_norm=0.5"}};
    for (int i = 0; i < n_sets; i++)
        r.sets[r.n_sets++] = sets[i];
    OK(comm_run_threads(ranks, 1, NULL, run_rank, &r));
    return r;
}

static void expect_same_bits(const layout_run *got, const layout_run *want) {
    for (int step = 0; step < STEPS; step++)
        if (got->loss[step] != want->loss[step] || got->grad_norm[step] != want->grad_norm[step] ||
                got->param_norm[step] != want->param_norm[step])
            fail_msg("%d ranks, step %d: loss %.17g, norms %.17g %.17g; %d: %.17g, %.17g %.17g",
                    got->ranks, step, got->loss[step], got->grad_norm[step], got->param_norm[step],
                    want->ranks, want->loss[step], want->grad_norm[step], want->param_norm[step]);
    assert_int_equal(got->n_weights, want->n_weights);
    assert_memory_equal(got->weights, want->weights, sizeof(float) * (size_t)want->n_weights);
}

// --- data parallel
static void lanes_give_the_same_bits_on_any_ranks(void **state) {
    (void)state;
    static const char *const precisions[] = {"training.precision=fp32", "training.precision=bf16"};
    for (int p = 0; p < 2; p++) {
        const char *sets[] = {"parallel.lanes=8", precisions[p]};
        layout_run one = run_layout(1, sets, 2);
        for (int ranks = 2; ranks <= 8; ranks *= 2) {
            layout_run several = run_layout(ranks, sets, 2);
            expect_same_bits(&several, &one);
            free(several.weights);
        }
        free(one.weights);
    }
}

// As many lanes as ranks, unless more are asked for; three leave a tree that is not full.
static void three_ranks_are_three_lanes(void **state) {
    (void)state;
    const char *sets[] = {"training.global_batch_size=12", "parallel.lanes=3"};
    layout_run one = run_layout(1, sets, 2), three = run_layout(3, sets, 1);
    expect_same_bits(&three, &one);
    free(one.weights);
    free(three.weights);
}

static void ranks_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *set, *text;
    } cases[] = {
            {3, "parallel.data=auto", "a multiple of micro_batch_size 1 x data-parallel ranks 3"},
            {2, "parallel.data=4", "\"parallel.data\" is 4, but 2 ranks were started"},
            {4, "parallel.lanes=2", "\"parallel.lanes\" is 2, expected a divisor of the 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena *a = arena_new("cfg");
        run_config cfg;
        const char *sets[] = {"model.preset=tiny", cases[i].set};
        OK(config_from_sets(a, sets, 2, &cfg));
        FAILS(config_set_ranks(&cfg, cases[i].ranks), DRV_E_USAGE, cases[i].text);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_give_the_same_bits_on_any_ranks),
            cmocka_unit_test(three_ranks_are_three_lanes),
            cmocka_unit_test(ranks_that_do_not_fit_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
