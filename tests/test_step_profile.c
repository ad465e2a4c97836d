// The profile of a training step: its rows and what is left over are the step, FLOPs are those of
// the plan, nothing is timed unasked.
#include <math.h>

#include "harness.h"
#include "ir/op.h"
#include "search/step_time.h"
#include "setup/device.h"

typedef struct profiled {
    arena *a;
    run_config *cfg;
    comm *comm;
    backend *b;
    programs p;
    step_times times;
    step_profile *profile;
} profiled;

enum { STEPS = 2 };

// Into its place: programs point to where they are loaded.
static void open_step(profiled *x, const char *more, const char *other) {
    *x = (profiled){.a = arena_new("profile")};
    const char *sets[] = {"model.preset=tiny", "data.sequence_length=64",
            "training.global_batch_size=6", "training.micro_batch_size=2", more, other};
    x->cfg = ARENA_NEW(x->a, run_config);
    x->profile = ARENA_NEW(x->a, step_profile);
    OK(config_load(x->a, NULL, sets, sizeof sets / sizeof *sets, x->cfg));
    OK(comm_open(x->a, NULL, &x->comm));
    OK(device_open(x->a, x->cfg, &x->b));
    OK(programs_build(x->a, x->cfg, &x->p));
    OK(programs_load(x->a, x->b, &x->p));
    OK(held_init_weights(&x->p.held));
}

static void close_step(profiled *x) {
    backend_close(x->b);
    comm_close(x->comm);
    arena_free(x->a);
}

static double planned_flops(const programs *p, double micro_batches) {
    return micro_batches * held_find(&p->held, "step")->plan->flops +
           held_find(&p->held, "update")->plan->flops;
}

// How many nodes of an op a graph has.
static int64_t nodes_of(const graph *g, op_kind op, phase ph) {
    int64_t n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += g->nodes[i]->op == op && g->nodes[i]->phase == ph && !g->nodes[i]->recomputed;
    return n;
}

static const profile_row *find_row(const step_profile *p, profile_program program, op_kind op) {
    for (int i = 0; i < p->n_rows; i++)
        if (p->rows[i].program == program && p->rows[i].op == op) return &p->rows[i];
    return NULL;
}

static void check_profile(const profiled *step, const char *name) {
    const step_profile *got = step->profile;
    double seconds = got->outside_s, flops = 0;
    if (!(got->step_s == step->times.best && got->outside_s >= 0 && got->outside_s < got->step_s &&
                got->n_rows > 10))
        fail_msg("%s: %d rows, %g s of %g s outside", name, got->n_rows, got->outside_s,
                got->step_s);
    for (int i = 0; i < got->n_rows; i++) {
        const profile_row *row = &got->rows[i];
        seconds += row->seconds;
        flops += row->flops;
        if (!(row->count > 0 && row->seconds >= 0 && row->bytes > 0 && row->sent == 0))
            fail_msg("%s: %s: %lld runs, %g s, %g bytes, %g sent", name, op_name(row->op),
                    (long long)row->count, row->seconds, row->bytes, row->sent);
        if (i > 0 && row[-1].program == row->program && row[-1].seconds < row->seconds)
            fail_msg("%s: row %d is longer than the one before", name, i);
    }
    if (!(fabs(seconds - got->step_s) < 1e-9 * got->step_s))
        fail_msg("%s: the rows are %g s, the step %g s", name, seconds, got->step_s);
    const double planned = planned_flops(&step->p, 3);
    if (!(fabs(flops - planned) < 1e-9 * planned))
        fail_msg("%s: %.17g FLOPs in rows, %.17g planned", name, flops, planned);
    const profile_row *products = find_row(got, PROFILE_FORWARD, OP_matmul);
    assert_non_null(products);
    assert_int_equal(products->count, 3 * nodes_of(step->p.step_graph, OP_matmul, PHASE_FORWARD));
    assert_non_null(find_row(got, PROFILE_BACKWARD, OP_attention_grad));
    assert_null(find_row(got, PROFILE_BETWEEN_RANKS, OP_all_reduce));
}

TEST(rows_are_the_step) {
    static const struct {
        const char *more, *other;
        op_kind update, again; // ops of the optimizer, and of what is made again (N_OPS: nothing)
    } cases[] = {{"training.precision=fp32", "training.threads=1", OP_adamw, N_OPS},
            {"training.precision=bf16", "training.recompute=full", OP_adamw, OP_matmul},
            {"optimizer.type=muon", "training.threads=2", OP_orthogonalise, N_OPS},
            {"optimizer.state_dtype=bf16", "training.recompute=none", OP_adamw_rounded, N_OPS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        profiled x;
        open_step(&x, cases[i].more, cases[i].other);
        OK(step_time(x.a, &x.p, x.comm, STEPS, &x.times, x.profile));
        check_profile(&x, cases[i].more);
        assert_non_null(find_row(x.profile, PROFILE_UPDATE, cases[i].update));
        if (cases[i].again != N_OPS)
            assert_non_null(find_row(x.profile, PROFILE_AGAIN, cases[i].again));
        close_step(&x);
    }
}

TEST(nothing_is_timed_unasked) {
    profiled x;
    open_step(&x, "training.threads=1", "training.precision=fp32");
    int64_t n_runs;
    OK(step_time(x.a, &x.p, x.comm, STEPS, &x.times, NULL));
    const double *seconds = backend_node_seconds(x.b, x.p.step, &n_runs);
    assert_true(n_runs > 0);
    for (int i = 0; i < x.p.step_graph->n_nodes; i++)
        assert_true(seconds[i] <= 0);
    close_step(&x);
}

// Of an op with a table: the rows that are looked up.
TEST(bytes_are_what_is_touched) {
    profiled x;
    open_step(&x, "training.threads=1", "training.precision=fp32");
    const int64_t tokens = 2 * 64, width = x.cfg->model.hidden_size;
    for (int i = 0; i < x.p.step_graph->n_nodes; i++) {
        const node *n = x.p.step_graph->nodes[i];
        if (n->op == OP_embedding)
            assert_true(node_bytes(n) == (double)(4 * tokens + 2 * 4 * tokens * width));
        if (n->op == OP_embedding_grad)
            assert_true(node_bytes(n) == (double)(4 * tokens + 3 * 4 * tokens * width));
    }
    close_step(&x);
}

TEST(the_bound_is_the_higher_one) {
    static const struct {
        double flops, bytes;
        machine_roof roof;
        double least;
        bool by_memory;
    } cases[] = {{1e9, 1e6, {1e9, 1e9}, 1, false}, {1e6, 1e9, {1e9, 1e9}, 1, true},
            {0, 5e8, {1e9, 1e9}, 0.5, true}, {1e9, 1e9, {0, 0}, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const profile_row row = {.flops = cases[i].flops, .bytes = cases[i].bytes};
        bool by_memory;
        assert_true(profile_least_s(&row, &cases[i].roof, &by_memory) == cases[i].least);
        assert_int_equal(by_memory, cases[i].by_memory);
    }
}

TEST(memory_has_a_rate) {
    profiled x;
    open_step(&x, "training.threads=1", "training.precision=fp32");
    double rate;
    OK(backend_memory_rate(x.b, 1, &rate));
    if (!(rate > 1e6 && rate < 1e14)) fail_msg("%g bytes/s", rate);
    close_step(&x);
}
