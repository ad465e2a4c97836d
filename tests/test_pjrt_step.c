// A whole training step as one program on a PJRT plugin, against forward, backward and update one
// by one on the CPU back end: for one and several micro-batches; which numbers an update takes
// after a step that was skipped; values that are read while later steps run; the memory of what is
// updated; which node an error is of. The model has one layer, since the compiler takes as long for
// each; that of tests/train_pjrt.sh has two. Skipped, saying so, where there is no plugin.
#include "harness.h"

#include <math.h>

#include "backend/pjrt/device_group.h"
#include "backend/pjrt/runtime/plugin.h"
#include "ir/op.h"
#include "programs/step.h"

enum { ROWS = 4, TOKENS = 16, STEPS = 3 };

typedef struct step_run {
    arena *a;
    run_config cfg;
    programs p;
    comm *comm;
    stepper stepper;
    batch batch;
} step_run;

static const char *cache; // of compiled programs: many runs are alike

static step_run *open_run(const char *name, int micro_batch, bool bf16) {
    arena *a = arena_new("step run");
    step_run *r = ARENA_NEW(a, step_run);
    backend *b;
    const char *sets[] = {"model.preset=tiny", "model.vocab_size=64", "model.num_hidden_layers=1",
            arena_printf(a, "data.sequence_length=%d", TOKENS),
            arena_printf(a, "training.global_batch_size=%d", ROWS),
            arena_printf(a, "training.micro_batch_size=%d", micro_batch),
            arena_printf(a, "parallel.partial_sum_rows=%d", micro_batch), // as with backend pjrt
            bf16 ? "training.precision=bf16" : "training.precision=fp32"};
    r->a = a;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &r->cfg));
    OK(backend_open(a, name, &(backend_opts){.plugin = "cpu", .cache_dir = cache}, &b));
    OK(programs_build(a, &r->cfg, &r->p));
    OK(programs_load(a, b, &r->p));
    OK(held_init_weights(&r->p.held));
    OK(comm_open(a, NULL, &r->comm));
    const mesh one = mesh_single();
    r->stepper = stepper_new(a, &r->p, r->comm, &one);
    r->batch = batch_new(a, ROWS, TOKENS);
    return r;
}

static void close_run(step_run *r) {
    backend_close(r->p.held.b);
    comm_close(r->comm);
    arena_free(r->a);
}

static void fill_batch(step_run *r, int step) {
    batch *b = &r->batch;
    const rng_key key = {(uint64_t)step, RNG_TEST, 3};
    b->counted = 0;
    for (int i = 0; i < ROWS * TOKENS; i++) {
        b->tokens[i] = (int32_t)(rng_u64(&key, (uint64_t)i) % 64);
        b->position[i] = i % TOKENS;
        b->labels[i] = i % TOKENS == TOKENS - 1 ? -1 : (int32_t)((b->tokens[i] * 7 + 1) % 64);
        b->counted += b->labels[i] >= 0;
    }
}

static void hyper_of(double lr, int updates, double out[N_HYPER]) {
    out[0] = lr;
    out[1] = 1 - pow(0.9, updates);
    out[2] = 1 - pow(0.95, updates);
    out[3] = 1;
    out[HYPER_UPDATE] = updates;
}

// Forward, backward, update on the CPU.
static step_values step_apart(step_run *r, int step, int updates) {
    double hyper[N_HYPER];
    step_values v;
    fill_batch(r, step);
    hyper_of(1e-2, updates, hyper);
    OK(stepper_gradients(&r->stepper, &r->batch, &v.loss));
    OK(stepper_update(&r->stepper, hyper, &v.grad_norm, &v.param_norm));
    return v;
}

static void start_whole(step_run *r, int step, int updates, int updates_after_skip,
        step_values *v) {
    double hyper[2 * N_HYPER];
    fill_batch(r, step);
    hyper_of(1e-2, updates, hyper);
    hyper_of(1e-2, updates_after_skip, hyper + N_HYPER);
    OK(stepper_start(&r->stepper, &r->batch, hyper, v));
}

static void near(const char *what, double got, double want, double bound) {
    if (!(fabs(got - want) <= bound * fabs(want)))
        fail_msg("%s: %.9g, expected %.9g within %g", what, got, want, bound);
}

static void near_values(const step_values *got, const step_values *want, double bound) {
    near("loss", got->loss, want->loss, bound);
    near("gradient norm", got->grad_norm, want->grad_norm, 20 * bound);
    near("parameter norm", got->param_norm, want->param_norm, bound);
}

TEST(steps_are_those_of_the_cpu) {
    static const struct {
        int micro_batch;
        bool bf16;
        double bound;
    } cases[] = {{4, false, 1e-5}, {2, false, 1e-5}, {1, false, 1e-5}, {4, true, 2e-3},
            {1, true, 2e-3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        step_run *got = open_run("pjrt", cases[i].micro_batch, cases[i].bf16),
                 *want = open_run("cpu", cases[i].micro_batch, cases[i].bf16);
        assert_non_null(got->p.whole_step);
        assert_null(want->p.whole_step);
        for (int step = 1; step <= STEPS; step++) {
            step_values v;
            start_whole(got, step, step, step, &v);
            OK(stepper_finish(&got->stepper, &v));
            const step_values w = step_apart(want, step, step);
            near_values(&v, &w, cases[i].bound);
        }
        close_run(got);
        close_run(want);
    }
}

// Both sets of numbers are given; the state says which holds.
TEST(a_skipped_step_counts_no_update) {
    for (int skipped = 0; skipped < 2; skipped++) {
        const double norm2 = skipped ? HUGE_VAL : 1;
        step_run *got = open_run("pjrt", 2, false), *want = open_run("cpu", 2, false);
        step_values v;
        start_whole(got, 1, 1, 1, &v);
        OK(stepper_finish(&got->stepper, &v));
        step_apart(want, 1, 1);
        OK(backend_write(got->p.held.b, "grad_norm2", 0, sizeof norm2, &norm2));
        start_whole(got, 2, 40, 2, &v); // far apart, to tell them
        OK(stepper_finish(&got->stepper, &v));
        const step_values w = step_apart(want, 2, skipped ? 2 : 40);
        near_values(&v, &w, 1e-5);
        close_run(got);
        close_run(want);
    }
}

// A NaN in a weight: nothing is updated, and the next step knows it without the host.
TEST(a_step_without_a_finite_norm_changes_nothing) {
    step_run *run = open_run("pjrt", 2, false);
    const char *name = run->p.held.params.p[0].name;
    const float nan = NAN;
    float before[4], after[4];
    step_values v[2];
    OK(backend_write(run->p.held.b, name, 0, sizeof nan, &nan));
    fill_batch(run, 1);
    OK(backend_read(run->p.held.b, name, 4, sizeof before, before));
    for (int i = 0; i < ROWS * TOKENS; i++)
        run->batch.tokens[i] = 0; // the row of the NaN
    double hyper[2 * N_HYPER];
    hyper_of(1e-2, 1, hyper);
    hyper_of(1e-2, 1, hyper + N_HYPER);
    OK(stepper_start(&run->stepper, &run->batch, hyper, &v[0]));
    start_whole(run, 2, 2, 1, &v[1]);
    OK(stepper_finish(&run->stepper, &v[0]));
    OK(stepper_finish(&run->stepper, &v[1]));
    assert_true(isnan(v[0].grad_norm) != 0);
    OK(backend_read(run->p.held.b, name, 4, sizeof after, after));
    assert_memory_equal(before, after, sizeof before);
    close_run(run);
}

// The next step is under way when the numbers of this one are read.
TEST(numbers_may_be_read_a_step_later) {
    step_run *one = open_run("pjrt", 2, false), *ahead = open_run("pjrt", 2, false);
    step_values now[STEPS], later[STEPS];
    for (int i = 0; i < STEPS; i++) {
        start_whole(one, i + 1, i + 1, i + 1, &now[i]);
        OK(stepper_finish(&one->stepper, &now[i]));
        start_whole(ahead, i + 1, i + 1, i, &later[i]);
        if (i > 0) OK(stepper_finish(&ahead->stepper, &later[i - 1]));
    }
    OK(stepper_finish(&ahead->stepper, &later[STEPS - 1]));
    for (int i = 0; i < STEPS; i++)
        assert_memory_equal(&now[i], &later[i], sizeof now[i]);
    close_run(one);
    close_run(ahead);
}

// What is updated takes the memory of what it was: nothing else of any size is a result.
TEST(weights_and_moments_are_updated_in_place) {
    step_run *r = open_run("pjrt", 2, false);
    backend_memory m;
    assert_true(backend_program_memory(r->p.held.b, r->p.whole_step, &m));
    int64_t n = 0;
    for (int i = 0; i < r->p.held.params.n; i++)
        n += param_elements(&r->p.held.params.p[i]);
    assert_true(m.aliased == 12 * n); // weights and two moments
    assert_true(m.results - m.aliased < 4096);
    close_run(r);
}

// Text says of no operation where it is from, but one that the plugin refuses is named by its node.
TEST(a_refused_operation_is_named_by_its_node) {
    step_run *small = open_run("cpu", ROWS, false);
    const backend_opts opts = {.plugin = "cpu", .cache_dir = "none"};
    const graph *eval = small->p.eval_graph;
    device_pool *pool;
    lowered program;
    group_program *made;
    OK(device_pool_open(small->a, &opts, 1, &pool));
    OK(lower_graph(small->a, eval, &(lower_options){.has_f64 = true}, &program));
    char *order = strstr(program.text.p, "permutation = array<i64: 0, 2");
    assert_non_null(order);
    order[strlen("permutation = array<i64: ")] = '9';
    int line = 1, refused = -1;
    for (const char *p = program.text.p; p < order; p++)
        line += *p == '\n';
    for (int i = 0; i < program.n_lines && program.lines[i].first <= line; i++)
        refused = program.lines[i].node;
    device_member alone = {.group = device_group_of(pool, 0, 1, 1)};
    OK(group_compile(&alone, &program, 1, &made));
    assert_int_equal(made->ended.status, DRV_E_DEVICE);
    const char *named = arena_printf(small->a, "graph \"%s\", node %d %s: plugin", eval->name,
            refused, op_name(eval->nodes[refused]->op));
    if (!strstr(made->ended.message, named))
        fail_msg("\"%s\" is not in: %s", named, made->ended.message);
    str_free(&program.text);
    device_pool_close(pool);
    close_run(small);
}

int main(void) {
    arena *a = arena_new("plugin");
    const char *name, *path;
    if (plugin_find(a, "cpu", &name, &path) != DRV_OK) {
        print_message("skipped: %s\n", drv_message());
        return 77;
    }
    print_message("reads %s, outside the tree\n", path);
    cache = temporary_dir(a);
    const int failed = tests_run();
    arena_free(a);
    return failed;
}
