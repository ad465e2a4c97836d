// Where sums of gradients stand that go during the backward pass: each right after the last op that
// adds to it, once for each, in whatever program that is; what the update is left with; and the
// memory that a plan counts for it.
#include "layout_run.h"

#include "ir/shard.h"

enum { MAX_SUMS = 256, MAX_KEYS = 8 };

typedef struct found { // sums of gradients of a rank, by their names in all its programs
    const char *name[MAX_SUMS];
    const graph *added_in[MAX_SUMS], *summed_in[MAX_SUMS]; // the last program that adds
    int n, n_adds[MAX_SUMS];                               // nodes in all
} found;

static int find(found *f, const char *name) {
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->name[i], name) == 0) return i;
    assert_true(f->n < MAX_SUMS);
    f->name[f->n] = name;
    return f->n++;
}

static bool adds_to(const node *n, const tensor *sum) {
    for (int o = 0; o < n->n_out; o++)
        if (tensor_root(n->out[o]) == sum) return true;
    return false;
}

static bool touches(const node *n, const tensor *sum) {
    for (int k = 0; k < n->n_in; k++)
        if (tensor_root(n->in[k]) == sum) return true;
    return adds_to(n, sum);
}

// Nothing but other sums is between node `at` and the op that adds to its tensor last.
static void expect_in_place(const graph *g, int at) {
    const node *n = g->nodes[at];
    const tensor *sum = tensor_root(n->in[0]);
    int before = at - 1;
    while (before >= 0 && g->nodes[before]->op == OP_sum_shard)
        before--;
    if (before < 0 || !adds_to(g->nodes[before], sum))
        fail_msg("%s: %s is summed at node %d, not after what adds to it", g->name, sum->name, at);
    assert_int_equal(n->layer, g->nodes[before]->layer);
    assert_int_equal(n->phase, PHASE_BACKWARD);
    for (int i = at + 1; i < g->n_nodes; i++)
        if (touches(g->nodes[i], sum))
            fail_msg("%s: %s is summed at node %d, but node %d follows", g->name, sum->name, at, i);
}

static void expect_attrs(const op_attrs *got, const op_attrs *want) {
    assert_int_equal(got->mesh.axis, AXIS_DATA);
    assert_int_equal(got->mesh.ranks, want->mesh.ranks);
    assert_int_equal(got->sum.data_ranks, want->sum.data_ranks);
    assert_int_equal(got->sum.in_accum_group, want->sum.in_accum_group);
    assert_int_equal(got->mesh.whole, want->mesh.whole);
    assert_true(got->mesh.async);
}

static void note_adds(const graph *g, const node *n, found *f) {
    for (int k = 0; k < n->n_in; k++) {
        const tensor *root = tensor_root(n->in[k]);
        if (root->cls != TENSOR_GRAD || root->def || !adds_to(n, root)) continue;
        const int sum = find(f, root->name);
        f->added_in[sum] = g;
        f->n_adds[sum]++;
    }
}

static void look_at(const graph *g, found *f, const op_attrs *want) {
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        if (n->op != OP_sum_shard) {
            note_adds(g, n, f);
            continue;
        }
        const int sum = find(f, tensor_root(n->in[0])->name);
        if (f->summed_in[sum]) fail_msg("%s is summed twice", f->name[sum]);
        f->summed_in[sum] = g;
        expect_in_place(g, i);
        expect_attrs(&n->attrs, want);
    }
}

static void build(arena *a, int ranks, int rank, const char *const *keys, run_config *cfg,
        programs *p) {
    const char *sets[MAX_SETS] = {"model.preset=tiny", "model.num_hidden_layers=4",
            "data.sequence_length=40", "training.global_batch_size=8",
            "training.micro_batch_size=1"};
    int n = 5;
    for (int i = 0; i < MAX_KEYS && keys[i]; i++)
        sets[n++] = keys[i];
    OK(config_load(a, NULL, sets, n, cfg));
    OK(config_set_ranks(cfg, ranks));
    cfg->rank = rank;
    OK(programs_build(a, cfg, p));
}

typedef struct graph_case {
    int ranks;
    op_attrs want;
    bool in_weights; // some are summed where weight gradients are split off
    const char *keys[MAX_KEYS];
} graph_case;

static const graph_case cases[] = {
        {2, {.mesh = {.ranks = 2, .whole = 1}, .sum = {.data_ranks = 2, .in_accum_group = 4}},
                false, {"parallel.zero=0", "model.tie_word_embeddings=true"}},
        {2, {.mesh = {.ranks = 2}, .sum = {.data_ranks = 2, .in_accum_group = 4}}, false,
                {"parallel.zero=1", "model.tie_word_embeddings=false", "training.recompute=full"}},
        {4, {.mesh = {.ranks = 4, .whole = 1}, .sum = {.data_ranks = 2, .in_accum_group = 4}},
                false,
                {"parallel.zero=0", "parallel.context=2", "parallel.context_blocks=2",
                        "training.recompute=selective"}},
        {8, {.mesh = {.ranks = 2}, .sum = {.data_ranks = 2, .in_accum_group = 2}}, false,
                {"parallel.zero=1", "parallel.pipeline=2", "parallel.tensor=2",
                        "model.tie_word_embeddings=true", "training.recompute=full",
                        "training.micro_batch_size=2"}},
        {4, {.mesh = {.ranks = 2, .whole = 1}, .sum = {.data_ranks = 2, .in_accum_group = 4}}, true,
                {"parallel.zero=0", "parallel.pipeline=2", "parallel.schedule=zb-h1",
                        "model.tie_word_embeddings=true"}},
        {4, {.mesh = {.ranks = 2}, .sum = {.data_ranks = 2, .in_accum_group = 4}}, true,
                {"parallel.zero=1", "parallel.pipeline=2", "parallel.schedule=zb-h1",
                        "training.grad_dtype=bf16", "training.precision=bf16",
                        "training.recompute=full"}},
        {4, {.mesh = {.ranks = 2}, .sum = {.data_ranks = 2, .in_accum_group = 4}}, true,
                {"parallel.zero=1", "parallel.pipeline=2", "parallel.schedule=zb-h1", "lora.rank=4",
                        "lora.dropout=0.1"}},
        {4, {.mesh = {.ranks = 2}, .sum = {.data_ranks = 2, .in_accum_group = 4}}, false,
                {"parallel.zero=1", "parallel.pipeline=2", "parallel.schedule=interleaved",
                        "parallel.virtual_stages=2", "model.tie_word_embeddings=true"}},
};

static void each_sum_follows_what_adds_last(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n_weights = 0;
        for (int rank = 0; rank < cases[i].ranks; rank++) {
            arena *a = arena_new("sums");
            run_config cfg;
            programs built;
            found *sums = ARENA_NEW(a, found);
            build(a, cases[i].ranks, rank, cases[i].keys, &cfg, &built);
            for (int k = 0; k < built.held.n_all; k++)
                if (built.held.all[k].each_micro_batch)
                    look_at(built.held.all[k].graph, sums, &cases[i].want);
            assert_true(sums->n > 0);
            for (int k = 0; k < sums->n; k++) {
                if (sums->summed_in[k] != sums->added_in[k])
                    fail_msg("case %zu, rank %d: %s is summed elsewhere than added to", i, rank,
                            sums->name[k]);
                n_weights += strstr(sums->summed_in[k]->name, "weights") != NULL;
            }
            arena_free(a);
        }
        assert_true(cases[i].in_weights == (n_weights > 0));
    }
}

static const op_attrs tb = {.matmul.tb = 1};
// No model has a weight that two nodes add to: here is one that is multiplied by three times.
static void several_nodes_add(void **state) {
    (void)state;
    arena *a = arena_new("several");
    found *sums = ARENA_NEW(a, found);
    graph *built = graph_new(a, "several");
    built->mesh.size[AXIS_DATA] = 6;
    tensor *h = graph_state(built, TENSOR_INPUT, "x", DT_F32, 2, (int64_t[]){3, 4}),
           *w = graph_state(built, TENSOR_WEIGHT, "w", DT_F32, 2, (int64_t[]){4, 4}),
           *v = graph_state(built, TENSOR_WEIGHT, "v", DT_F32, 2, (int64_t[]){4, 4});
    tensor *const by[] = {w, v, w, w};
    w->trainable = v->trainable = true;
    for (int i = 0; i < 4; i++)
        h = graph_add(built, OP_matmul, 2, (tensor *[]){h, by[i]}, &tb)->out[0];
    graph_output(built, h, "y");
    OK(graph_verify(built, STAGE_BUILT));
    pass_autodiff(built, "y");
    const gradient_sums async = {.ranks = 6, .data_ranks = 3, .micro_batches = 5, .whole = true};
    pass_overlapped_sums(built, &async, INPUT_ALONE, 1);
    OK(graph_verify(built, STAGE_DIFFERENTIATED));
    const op_attrs all = {.mesh = {.ranks = 6, .whole = 1},
            .sum = {.data_ranks = 3, .in_accum_group = 5}};
    look_at(built, sums, &all);
    assert_true(sums->n == 2 && sums->n_adds[find(sums, "grad.w")] == 3);
    assert_ptr_equal(sums->summed_in[find(sums, "grad.w")], built);
    assert_ptr_equal(sums->summed_in[find(sums, "grad.v")], built);
    arena_free(a);
}

// --- the update
static int count_async(const programs *p, op_kind op, int async, int summed) {
    int n = 0;
    for (int i = 0; i < p->update_graph->n_nodes; i++) {
        const node *one = p->update_graph->nodes[i];
        n += one->op == op && one->attrs.mesh.axis == AXIS_DATA && one->attrs.mesh.ranks == 2 &&
             one->attrs.mesh.async == async && one->attrs.mesh.summed == summed;
    }
    return n;
}

// The norm is summed over all ranks in any case.
static void the_update_is_left_with(void **state) {
    (void)state;
    enum { N_WEIGHTS = 4 * 6 + 3 };
    static const struct {
        const char *keys[3];
        int reduced, summed, gathered, gathered_async;
        int all_reduced; // at least
    } shapes[] = {{{"parallel.zero=0"}, 0, 0, 0, 0, 0},
            {{"parallel.zero=1"}, 0, N_WEIGHTS, 0, N_WEIGHTS, 0},
            {{"parallel.zero=1", "parallel.overlap=false"}, N_WEIGHTS, 0, N_WEIGHTS, 0, 0},
            {{"parallel.zero=0", "parallel.overlap=false"}, 0, 0, 0, 0, N_WEIGHTS},
            {{"parallel.zero=1", "parallel.accumulation_groups=4"}, N_WEIGHTS, 0, 0, N_WEIGHTS, 0},
            {{"parallel.zero=2"}, 0, 0, 0, N_WEIGHTS, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        arena *a = arena_new("update");
        run_config cfg;
        programs built;
        const char *keys[] = {"model.tie_word_embeddings=false", shapes[i].keys[0],
                shapes[i].keys[1], NULL};
        build(a, 2, 0, keys, &cfg, &built);
        print_message("%s %s\n", keys[1], keys[2] ? keys[2] : "");
        assert_int_equal(count_async(&built, OP_reduce_shard, 0, 0), shapes[i].reduced);
        assert_int_equal(count_async(&built, OP_reduce_shard, 0, 1), shapes[i].summed);
        assert_int_equal(count_async(&built, OP_gather_shards, 0, 0), shapes[i].gathered);
        assert_int_equal(count_async(&built, OP_gather_shards, 1, 0), shapes[i].gathered_async);
        const int all_reduced = count_async(&built, OP_all_reduce, 0, 0);
        assert_true(
                all_reduced >= shapes[i].all_reduced && all_reduced <= shapes[i].all_reduced + 2);
        const bool sums = shapes[i].summed || (i == 0);
        assert_true(sums == (graph_find(built.step_graph, "last") != NULL));
        arena_free(a);
    }
}

// --- memory
static memory_plan memory_of(int ranks, const char *const *keys) {
    arena *a = arena_new("memory");
    run_config cfg;
    programs built;
    backend *device;
    build(a, ranks, 0, keys, &cfg, &built);
    device = backend_open_planner(a);
    OK(programs_load(a, device, &built));
    const memory_plan memory = programs_memory(&built);
    arena_free(a);
    return memory;
}

// Sums go through a bucket, which is not part of the arena; of what is left, gathers of weights
// beside and sums that are there already take nothing.
static void memory_counts_the_bucket(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *zero;
        int64_t vocab;
    } shapes[] = {{2, "parallel.zero=0", 512}, {2, "parallel.zero=1", 512},
            {3, "parallel.zero=1", 512}, {3, "parallel.zero=0", 200000}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        arena *a = arena_new("keys");
        const char *keys[] = {shapes[i].zero, "training.global_batch_size=12",
                arena_printf(a, "model.vocab_size=%lld", (long long)shapes[i].vocab),
                "model.tie_word_embeddings=false", "parallel.overlap=true", NULL};
        const memory_plan with = memory_of(shapes[i].ranks, keys);
        keys[4] = "parallel.overlap=false";
        const memory_plan without = memory_of(shapes[i].ranks, keys);
        // The table of embeddings is the largest weight.
        const int64_t table = shapes[i].vocab * 64, most = 16 << 20,
                      through = 4 * shapes[i].ranks * shard_length(table, shapes[i].ranks),
                      unit = 4 * shapes[i].ranks,
                      bucket = through < most ? through : most / unit * unit;
        assert_int_equal(without.messages, 0);
        assert_int_equal(with.messages, bucket);
        assert_int_equal(without.communication, 4 * table);
        assert_true(with.communication - bucket < 64); // of the norm
        assert_int_equal(with.total - with.activations - with.data,
                without.total - without.activations - without.data + bucket);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_sum_follows_what_adds_last),
            cmocka_unit_test(several_nodes_add), cmocka_unit_test(the_update_is_left_with),
            cmocka_unit_test(memory_counts_the_bucket)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
