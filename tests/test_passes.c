// The passes on whole small Llamas in double: gradients with some weights frozen, recomputation,
// moves to the host.
#include "harness.h"

#include <math.h>

#include "model/llama.h"
#include "passes/passes.h"

enum { VOCAB = 11, HIDDEN = 8, SEQ = 6, ROWS = 2, TOKENS = ROWS * SEQ };

static const model_config small = {.vocab_size = VOCAB,
        .hidden_size = HIDDEN,
        .intermediate_size = 10,
        .num_hidden_layers = 2,
        .num_attention_heads = 4,
        .num_key_value_heads = 2,
        .head_dim = 4,
        .max_position_embeddings = 64,
        .rms_norm_eps = 1e-2,
        .rope_theta = 100};

typedef struct small_run {
    arena *a;
    backend *b;
    param_list params;
    graph *step, *loss;
    executable *run_step, *run_loss;
} small_run;

typedef bool (*choice)(const char *name); // whether a weight is trained

static void write_inputs(const small_run *r) {
    const graph *g = r->loss;
    for (int i = 0; i < TOKENS; i++) {
        const int token = 7 * i % VOCAB, in_row = i % SEQ;
        element_write(r->b, graph_find(g, "tokens"), i, token);
        element_write(r->b, graph_find(g, "labels"), i, i % 5 == 0 ? -1 : (7 * i + 7) % VOCAB);
        element_write(r->b, graph_find(g, "position"), i, in_row < 4 ? in_row : in_row - 4);
    }
    element_write(r->b, graph_find(r->step, "dloss"), 0, 0.5);
    for (int i = 0; i < r->params.n; i++) {
        const param *p = &r->params.p[i];
        for (int64_t k = 0; k < param_elements(p); k++)
            element_write(r->b, graph_find(g, p->name), k,
                    noise(hash_name(p->name), (uint64_t)k) + (p->n_dims == 1 ? 1.5 : 0));
    }
}

static small_run run_open_on(bool tied, choice trained, recompute_policy policy, bool offload) {
    small_run run = {.a = arena_new("small")};
    model_config *config = ARENA_NEW(run.a, model_config);
    *config = small;
    config->tie_word_embeddings = tied;
    const model_layout l = layout_of(config);
    const llama_opts opts = {.rows = ROWS, .seq = SEQ, .dt = DT_F64};
    OK(backend_open_host(run.a, &run.b));
    run.params = llama_params(run.a, &l, NULL);
    for (int i = 0; i < run.params.n; i++)
        run.params.p[i].trainable = trained(run.params.p[i].name);
    run.loss = llama_build(run.a, &run.params, LLAMA_LOSS, &opts);
    run.step = llama_build(run.a, &run.params, LLAMA_LOSS, &opts);
    pass_autodiff(run.step, "loss");
    OK(graph_verify(run.step, STAGE_DIFFERENTIATED));
    pass_recompute(run.step, policy);
    if (offload) pass_offload(run.step);
    OK(graph_verify(run.step, STAGE_DIFFERENTIATED));
    OK(backend_compile(run.a, run.b, run.step, NULL, &run.run_step));
    OK(backend_compile(run.a, run.b, run.loss, NULL, &run.run_loss));
    OK(backend_prepare(run.b));
    write_inputs(&run);
    return run;
}

static small_run run_open(bool tied, choice trained, recompute_policy policy) {
    return run_open_on(tied, trained, policy, false);
}

static void run_close(small_run *r) {
    backend_close(r->b);
    arena_free(r->a);
}

static double loss_of(const small_run *r) {
    OK(backend_run(r->b, r->run_loss));
    return 0.5 * element_read(r->b, graph_find(r->loss, "loss"), 0);
}

// --- which weights are trained
static bool all(const char *name) {
    (void)name;
    return true;
}
static bool head_alone(const char *name) {
    return strstr(name, "lm_head");
}
static bool table_alone(const char *name) {
    return strstr(name, "embed_tokens");
}
static bool norms_alone(const char *name) {
    return strstr(name, "norm");
}
static bool last_norm_alone(const char *name) {
    return strcmp(name, "model.norm.weight") == 0;
}
static bool one_projection(const char *name) {
    return strcmp(name, "model.layers.1.self_attn.qkv_proj.weight") == 0;
}
static bool all_but_tables(const char *name) {
    return !table_alone(name) && !head_alone(name);
}
static bool first_mlp(const char *name) {
    return strstr(name, "layers.0.mlp");
}

typedef struct frozen_case {
    const char *name;
    choice trained;
    bool tied;
} frozen_case;

static const frozen_case frozen_cases[] = {{"all", all, false}, {"all, tied", all, true},
        {"head", head_alone, false}, {"table", table_alone, false},
        {"table, tied", table_alone, true}, {"norms", norms_alone, false},
        {"last norm", last_norm_alone, false}, {"one projection", one_projection, false},
        {"all but tables", all_but_tables, false}, {"first MLP", first_mlp, true}};

static void compare_weight(const small_run *run, const frozen_case *test, const param *parameter) {
    static const double step = 1e-5, tolerance = 1e-6;
    const tensor *weight = graph_find(run->loss, parameter->name),
                 *grad = graph_find(run->step, arena_printf(run->a, "grad.%s", parameter->name));
    if (!parameter->trainable && grad)
        fail_msg("%s: %s is frozen and has a gradient", test->name, parameter->name);
    if (!parameter->trainable) return;
    if (!grad) fail_msg("%s: no gradient of %s", test->name, parameter->name);
    // Of a table that is used twice, each use has a part.
    const tensor *second =
            graph_find(run->step, arena_printf(run->a, "grad.%s.second", parameter->name));
    assert_true(!second == !(test->tied && strstr(parameter->name, "embed")));
    for (int64_t k = 0; k < param_elements(parameter); k += 3) {
        const double x = element_read(run->b, weight, k),
                     got = element_read(run->b, grad, k) +
                           (second ? element_read(run->b, second, k) : 0);
        element_write(run->b, weight, k, x + step);
        const double up = loss_of(run);
        element_write(run->b, weight, k, x - step);
        const double want = (up - loss_of(run)) / (2 * step);
        element_write(run->b, weight, k, x);
        if (!(fabs(got - want) <= tolerance * fmax(1, fabs(want))))
            fail_msg("%s: d/d%s[%lld] is %.9g, differences give %.9g", test->name, parameter->name,
                    (long long)k, got, want);
    }
}

TEST(frozen_weights) {
    for (size_t i = 0; i < sizeof frozen_cases / sizeof *frozen_cases; i++) {
        const frozen_case *c = &frozen_cases[i];
        small_run r = run_open(c->tied, c->trained, KEEP_ALL);
        OK(backend_run(r.b, r.run_step));
        for (int k = 0; k < r.params.n; k++)
            compare_weight(&r, c, &r.params.p[k]);
        run_close(&r);
    }
}

// --- what is computed
static bool skips_dw(const node *n) {
    return n->op == OP_rmsnorm_grad ? n->attrs.norm.skip_dw : n->attrs.vocabulary.skip_dw;
}
static bool skips_dx(const node *n) {
    return n->op != OP_rmsnorm_grad && n->attrs.vocabulary.skip_dx;
}
static int count(const graph *g, op_kind op, bool skip_dx, bool skip_dw) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *k = g->nodes[i];
        n += k->op == op && k->phase == PHASE_BACKWARD && skips_dx(k) == skip_dx &&
             skips_dw(k) == skip_dw;
    }
    return n;
}

static int64_t gradient_bytes(const small_run *r) {
    int64_t bytes = 0;
    for (int i = 0; i < r->step->n_tensors; i++)
        if (r->step->tensors[i]->cls == TENSOR_GRAD) bytes += tensor_bytes(r->step->tensors[i]);
    return bytes;
}

static double flops_of(const graph *g) {
    double sum = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (op_rows[g->nodes[i]->op]->flops) sum += op_rows[g->nodes[i]->op]->flops(g->nodes[i]);
    return sum;
}

// Only what leads to a trained weight: the head alone needs one product and no backward pass; one
// projection of the last layer needs what follows it and nothing of the layer before.
TEST(nothing_is_computed_in_vain) {
    small_run r = run_open(false, head_alone, KEEP_ALL);
    assert_int_equal(count(r.step, OP_matmul, false, false), 0);
    assert_int_equal(count(r.step, OP_rmsnorm_grad, false, false), 0);
    assert_int_equal(count(r.step, OP_linear_cross_entropy_grad, true, false), 1);
    assert_int_equal(gradient_bytes(&r), VOCAB * HIDDEN * 8);
    const double head = 2.0 * TOKENS * VOCAB * HIDDEN;
    assert_true(flops_of(r.step) == flops_of(r.loss) + head);
    run_close(&r);

    // Backwards: the head's input, the MLP's two products, o, and the projection's weight.
    r = run_open(false, one_projection, KEEP_ALL);
    assert_int_equal(count(r.step, OP_linear_cross_entropy_grad, false, true), 1);
    assert_int_equal(count(r.step, OP_matmul, false, false), 4);
    assert_int_equal(count(r.step, OP_rmsnorm_grad, false, true), 2);
    assert_int_equal(count(r.step, OP_attention_grad, false, false), 1);
    assert_int_equal(gradient_bytes(&r), 32 * HIDDEN * 8);
    run_close(&r);
}

// --- recomputation
static void expect_same_gradients(small_run *got, small_run *want) {
    for (int k = 0; k < got->params.n; k++) {
        const char *name = arena_printf(got->a, "grad.%s", got->params.p[k].name);
        const tensor *x = graph_find(got->step, name), *y = graph_find(want->step, name);
        assert_true(!x == !y);
        for (int64_t e = 0; x && e < tensor_elements(x); e++)
            assert_true(element_read(got->b, x, e) == element_read(want->b, y, e));
    }
}

TEST(recomputation_keeps_the_bits) {
    static const choice choices[] = {all, norms_alone, first_mlp};
    for (int i = 0; i < 3; i++) {
        small_run want = run_open(true, choices[i], KEEP_ALL);
        OK(backend_run(want.b, want.run_step));
        for (recompute_policy policy = KEEP_SHARDS; policy <= KEEP_STREAM; policy++) {
            small_run got = run_open(true, choices[i], policy);
            OK(backend_run(got.b, got.run_step));
            expect_same_gradients(&got, &want);
            run_close(&got);
        }
        run_close(&want);
    }
}

// --- moves to the host
static bool is_statistic(const tensor *t) {
    const node *n = t->def;
    for (int o = n->n_out - op_rows[n->op]->n_statistics; o < n->n_out; o++)
        if (n->out[o] == t) return true;
    return false;
}

static bool is_of_forward(const tensor *t) {
    return t->cls == TENSOR_TEMP && t->def && t->def->phase == PHASE_FORWARD && t->def->layer >= 0;
}

// Returns the layer that begins its backward pass at node i or after it.
static int backward_layer(const graph *g, int i) {
    while (g->nodes[i]->op == OP_from_host)
        i++;
    return g->nodes[i]->layer;
}

// The backward pass of the last layer reads nothing from the host, that of others nothing but
// statistics from anywhere else; values go while the layer above is computed, and come back as it
// begins its backward pass.
static int check_moves(const graph *g, int64_t n_layers) {
    int moves = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        moves += n->op == OP_to_host;
        if (n->op == OP_to_host) assert_true(is_of_forward(n->in[0]) && !is_statistic(n->in[0]));
        if (n->op == OP_from_host) {
            assert_int_equal(n->in[0]->def->op, OP_to_host);
            assert_int_equal(n->in[1]->def->phase, PHASE_BACKWARD);
            const node *stores = n->in[0]->def, *makes = stores->in[0]->def;
            assert_true(backward_layer(g, i) > makes->layer && stores->layer > makes->layer);
        }
        for (int k = 0; k < n->n_in && n->phase == PHASE_BACKWARD && n->layer >= 0; k++) {
            const tensor *t = n->in[k];
            if (is_of_forward(t) && n->layer < n_layers - 1)
                assert_true(is_statistic(t) || n->op == OP_from_host);
            if (t->def && t->def->op == OP_from_host) assert_true(n->layer < n_layers - 1);
        }
    }
    return moves;
}

TEST(moved_values_keep_the_bits) {
    static const choice choices[] = {all, norms_alone, first_mlp};
    int moves[KEEP_STREAM + 1] = {0};
    for (int i = 0; i < 3; i++)
        for (recompute_policy policy = KEEP_ALL; policy <= KEEP_STREAM; policy++) {
            small_run want = run_open(true, choices[i], policy),
                      got = run_open_on(true, choices[i], policy, true);
            OK(backend_run(want.b, want.run_step));
            OK(backend_run(got.b, got.run_step));
            expect_same_gradients(&got, &want);
            const int n = check_moves(got.step, small.num_hidden_layers);
            if (i == 0) moves[policy] = n;
            run_close(&got);
            run_close(&want);
        }
    // Of the first of two layers: two values of the residual stream at least.
    assert_true(moves[KEEP_STREAM] >= 1 && moves[KEEP_GEMMS] > moves[KEEP_STREAM] &&
                moves[KEEP_ALL] > moves[KEEP_GEMMS]);
}

// Whether a value can be computed from state without passing a barrier.
static bool is_unguarded(const tensor *t) {
    if (!t->def) return true;
    if (t->def->op == OP_barrier) return false;
    for (int k = 0; k < t->def->n_in; k++)
        if (!is_unguarded(t->def->in[k])) return false;
    return true;
}

// A layer whose first node reads state alone: its copy must not look like the original.
TEST(copies_are_guarded) {
    graph *built = graph_new(a, "g");
    built->layer = 0;
    tensor *gate = graph_state(built, TENSOR_WEIGHT, "gate", DT_F64, 2, (int64_t[]){6, 8});
    tensor *w = graph_state(built, TENSOR_WEIGHT, "w", DT_F64, 2, (int64_t[]){5, 4});
    tensor *x = graph_add(built, OP_swiglu, 1, &gate, NULL)->out[0];
    tensor *labels = graph_state(built, TENSOR_INPUT, "labels", DT_I32, 1, (int64_t[]){6});
    tensor *in[] = {x, w, labels};
    node *loss =
            graph_add(built, OP_linear_cross_entropy, 3, in, &(op_attrs){.vocabulary.chunk = 6});
    loss->layer = -1;
    graph_output(built, loss->out[0], "loss");
    pass_autodiff(built, "loss");
    pass_recompute(built, KEEP_STREAM);
    OK(graph_verify(built, STAGE_DIFFERENTIATED));
    int copies = 0;
    for (int i = 0; i < built->n_nodes; i++) {
        if (!built->nodes[i]->recomputed) continue;
        copies++;
        if (is_unguarded(built->nodes[i]->out[0]))
            fail_msg("%s is made again from state alone", op_name(built->nodes[i]->op));
    }
    assert_int_equal(copies, 1);
}

// --- shards
// The differentiated graph of a rank that shares with another one.
static graph *shared_step(arena *a, int n_layers, dtype dt) {
    model_config several = small;
    several.num_hidden_layers = n_layers;
    const model_layout l = layout_of(&several);
    const llama_opts opts = {.rows = ROWS, .seq = SEQ, .dt = dt};
    const param_list params = llama_params(a, &l, NULL);
    graph *g = llama_build(a, &params, LLAMA_LOSS, &opts);
    g->mesh.size[AXIS_DATA] = 2;
    pass_autodiff(g, "loss");
    return g;
}

// The layer of the first node from here on that neither gathers nor renames.
static int next_layer(const graph *g, int i) {
    while (g->nodes[i]->op == OP_gather_weight || op_rows[g->nodes[i]->op]->renames)
        i++;
    return g->nodes[i]->layer;
}

// Where a compiler orders nodes, each gather waits for the end of the second layer before the one
// that reads it: no earlier, so that two layers' weights are whole at most, and no later, so that
// it runs beside the layer before.
TEST(gathers_wait_for_a_layer) {
    graph *g = shared_step(a, 4, DT_F64);
    int gathers = 0;
    pass_shard_weights(g, &(weight_shards){.ranks = 2, .data_ranks = 2, .early = true});
    OK(graph_verify(g, STAGE_DIFFERENTIATED));
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i], *guard = n->n_in > 0 ? n->in[0]->def : NULL;
        const int beside = next_layer(g, i);
        if (n->op != OP_gather_weight || (n->phase == PHASE_FORWARD && n->layer <= 0)) continue;
        gathers++;
        if (beside == n->layer) fail_msg("a gather of layer %d begins with it", n->layer);
        if (!guard || guard->op != OP_barrier || guard->in[1]->def->layer == beside)
            fail_msg("a gather of layer %d may begin too early", n->layer);
    }
    assert_int_equal(gathers, 6 * 3 + 1 + 6 * 4); // forward, head, backward
}

// With shards of sums the gradients of a layer are sent and added while the next layer's are
// computed: none is under way when a layer after that adds, or when the program ends.
TEST(gradients_travel_beside_a_layer) {
    graph *step = shared_step(a, 2, DT_F32); // sums in fp64 are not shared
    int matrices = 0, pending = 0, layer = -2, layers = 0;
    const gradient_shards by = {.ranks = 2,
            .data_ranks = 2,
            .row_blocks = 1,
            .micro_batches = 2,
            .in_accum_group = 2,
            .async = true};
    pass_shard_gradients(step, &by, 0, 1);
    OK(graph_verify(step, STAGE_DIFFERENTIATED));
    for (int i = 0; i < step->n_nodes; i++) {
        const node *n = step->nodes[i];
        if (n->op == OP_await_shard) pending--;
        if (n->op != OP_add_shard) continue;
        if (n->layer != layer && pending > 0) fail_msg("node %d: a layer's gradients are left", i);
        layers += n->layer != layer;
        layer = n->layer;
        matrices += n->in[0]->n_dims == 2;
        pending++;
    }
    assert_int_equal(matrices, 2 * 4 + 2);
    assert_int_equal(pending, 0);
    assert_int_equal(layers, 2 + 2);
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
