// Communication that overlaps computation (parallel.overlap, docs/adr/0027): it changes neither
// bits nor bytes of a step; each sum of gradients stands right after the last op that adds to it;
// the plan counts its memory; whoever touches a tensor that is still being written waits.
#include "layout_run.h"

#include "comm/comm_internal.h"
#include "gate.h"
#include "ir/shard.h"

#define N_OF(list) (sizeof(list) / sizeof *(list))

// The keys of two lists, each split at its spaces: "zero=1" is parallel.zero.
static int split_keys(arena *a, const char *first, const char *second, const char **out) {
    int n = 0;
    char *rest = arena_printf(a, "%s %s", first, second), *end;
    for (const char *key; (key = strtok_r(rest, " ", &end)) != NULL; rest = NULL)
        out[n++] =
                strcspn(key, ".") < strcspn(key, "=") ? key : arena_printf(a, "parallel.%s", key);
    return n;
}

// --- bits and bytes: the same steps with and without overlap, and as one rank (test_grid compares
// more layouts with one rank)
enum { MAX_CASES = 6 };

typedef struct overlap_group {
    const char *keys; // of one rank as well
    bool not_as_one;  // the bits depend on the number of ranks
    struct {
        int ranks;
        const char *keys;
    } cases[MAX_CASES];
} overlap_group;

static const overlap_group groups[] = {
        // Four micro-batches a rank; tied tables, which two stages of a pipeline have.
        {"accumulation_groups=2 training.precision=fp32 model.tie_word_embeddings=true", false,
                {{2, "zero=2"}, {4, "zero=0 tensor=2 sequence=false"},
                        {4, "zero=1 pipeline=2 schedule=gpipe"},
                        {4, "zero=2 pipeline=2 schedule=1f1b"},
                        {4, "zero=0 pipeline=2 schedule=zb-h1"}}},
        {"accumulation_groups=2 training.precision=bf16 training.recompute=full model.tie_word_embeddings=false",
                false,
                {{2, "zero=0"}, {4, "zero=1 pipeline=2 schedule=zb-h1"},
                        {8, "zero=1 pipeline=2 tensor=2 schedule=interleaved virtual_stages=2"}}},
        // The first micro-batch of a rank is its last one; several accumulation groups a rank,
        // which are joined before anything travels.
        {"accumulation_groups=8 data.sequence_length=24", false,
                {{8, "zero=0"}, {8, "zero=1"}, {4, "zero=1"}, {2, "zero=0"}}},
        // Shards of other lengths, a tree that is not full.
        {"accumulation_groups=3 training.global_batch_size=12 training.precision=bf16 "
         "model.tie_word_embeddings=false",
                false, {{3, "zero=0"}, {3, "zero=1"}}},
        // One reduction block of the row a rank, or several.
        {"context_blocks=4 accumulation_groups=2", false,
                {{4, "zero=1 context=2"}, {8, "zero=1 context=4"},
                        {8, "zero=1 context=2 pipeline=2"}, {8, "zero=0 context=4 tensor=2"}}},
        // Low-rank branches alone have gradients: the first stage has none.
        {"accumulation_groups=2 lora.rank=4 lora.dropout=0.1 training.precision=bf16 "
         "lora.target_modules=.*layers\\.(2|3)\\..*proj",
                false, {{4, "zero=1 tensor=2"}, {4, "zero=0 pipeline=2 schedule=zb-h1"}}},
        // The second stage has a backward pass and nothing to sum.
        {"accumulation_groups=2 pipeline=2 lora.rank=4 lora.target_modules=.*\\.(0|1)\\..*proj",
                true,
                {{4, "zero=1"}, {4, "zero=2"}, {4, "zero=0 schedule=zb-h1"},
                        {4, "zero=1 training.grad_dtype=bf16 training.precision=bf16"}}},
        // Sums in bf16: what a rank adds is rounded before they travel.
        {"training.grad_dtype=bf16 training.precision=bf16 training.micro_batch_size=2", true,
                {{2, "zero=0"}, {3, "zero=1 training.global_batch_size=12"},
                        {4, "zero=1 pipeline=2 schedule=zb-h1"}}},
};

static layout_run run_keys(arena *a, int ranks, const char *keys, const char *more,
        const char *overlap) {
    const char *sets[MAX_SETS];
    int n = split_keys(a, keys, more, sets);
    if (overlap) sets[n++] = overlap;
    return train_layout(ranks, sets, n);
}

static void expect_as_planned(const layout_run *r) {
    for (int axis = 0; axis < N_AXES; axis++) {
        if (axis == AXIS_PIPELINE) continue;
        // Context ranks send sums of gradients along both axes together.
        if (fabs((double)r->sent[axis] - r->planned[axis]) > 1e-9 * r->planned[axis] + 0.5)
            fail_msg("%d ranks, %s, axis %d: %lld bytes sent, %.17g planned", r->ranks,
                    r->sets[r->n_sets - 2], axis, (long long)r->sent[axis], r->planned[axis]);
    }
}

static void compare(arena *a, const overlap_group *of, int ranks, const char *keys,
        const layout_run *one) {
    print_message("%d ranks, %s %s\n", ranks, of->keys, keys);
    layout_run without = run_keys(a, ranks, of->keys, keys, "parallel.overlap=false"),
               with = run_keys(a, ranks, of->keys, keys, NULL);
    expect_same_bits(&with, &without);
    if (one->weights) expect_same_bits(&with, one);
    expect_as_planned(&without);
    expect_as_planned(&with);
    free(without.weights);
    free(with.weights);
}

TEST(overlap_changes_no_bits) {
    for (const overlap_group *of = groups; of < groups + N_OF(groups); of++) {
        layout_run one = {.weights = NULL};
        if (!of->not_as_one) one = run_keys(a, 1, of->keys, "", NULL);
        for (int i = 0; i < MAX_CASES && of->cases[i].ranks; i++)
            compare(a, of, of->cases[i].ranks, of->cases[i].keys, &one);
        free(one.weights);
    }
}

// --- where sums stand in the graph
enum { MAX_SUMS = 256 };

typedef struct found { // sums of gradients of a rank, by their names in all its programs
    const char *name[MAX_SUMS];
    const graph *added_in[MAX_SUMS], *summed_in[MAX_SUMS]; // the last program that adds
    int n;
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
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            if (tensor_root(g->nodes[i]->in[k]) == sum)
                fail_msg("%s: %s is summed at node %d, but node %d reads it", g->name, sum->name,
                        at, i);
}

static void expect_attrs(const op_attrs *got, const op_attrs *want) {
    assert_true(got->mesh.axis == AXIS_DATA && got->mesh.async);
    assert_true(got->mesh.ranks == want->mesh.ranks && got->mesh.whole == want->mesh.whole);
    assert_true(got->sum.data_ranks == want->sum.data_ranks);
    assert_true(got->sum.in_accum_group == want->sum.in_accum_group);
}

static void look_at(const graph *g, found *f, const op_attrs *want) {
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_in && n->op != OP_sum_shard; k++) {
            const tensor *root = tensor_root(n->in[k]);
            if (root->cls == TENSOR_GRAD && !root->def && adds_to(n, root))
                f->added_in[find(f, root->name)] = g;
        }
        if (n->op != OP_sum_shard) continue;
        const int sum = find(f, tensor_root(n->in[0])->name);
        if (f->summed_in[sum]) fail_msg("%s is summed twice", f->name[sum]);
        f->summed_in[sum] = g;
        expect_in_place(g, i);
        expect_attrs(&n->attrs, want);
    }
}

static void build(arena *a, int ranks, int rank, const char *keys, run_config *cfg, programs *p) {
    const char *sets[MAX_SETS];
    const int n = split_keys(a,
            "model.preset=tiny model.num_hidden_layers=4 data.sequence_length=40 "
            "training.global_batch_size=8 training.micro_batch_size=1",
            keys, sets);
    OK(config_load(a, NULL, sets, n, cfg));
    OK(config_set_ranks(cfg, ranks));
    cfg->rank = rank;
    OK(programs_build(a, cfg, p));
}

static const struct {
    int ranks, of_sum, n_micro; // ranks of a sum, micro-batches of one in an accumulation group
    bool whole, in_weights;     // some are summed where weight gradients are split off
    const char *keys;
} graphs[] = {
        {2, 2, 4, true, false, "zero=0 model.tie_word_embeddings=true"},
        {2, 2, 4, false, false, "zero=1 model.tie_word_embeddings=false training.recompute=full"},
        {4, 4, 4, true, false, "zero=0 context=2 context_blocks=2 training.recompute=selective"},
        {8, 2, 2, false, false,
                "zero=1 pipeline=2 tensor=2 model.tie_word_embeddings=true training.recompute=full "
                "training.micro_batch_size=2"},
        {4, 2, 4, true, true, "zero=0 pipeline=2 schedule=zb-h1 model.tie_word_embeddings=true"},
        {4, 2, 4, false, true,
                "zero=1 pipeline=2 schedule=zb-h1 training.grad_dtype=bf16 training.precision=bf16 "
                "training.recompute=full"},
        {4, 2, 4, false, true, "zero=1 pipeline=2 schedule=zb-h1 lora.rank=4 lora.dropout=0.1"},
        {4, 2, 4, false, false,
                "zero=1 pipeline=2 schedule=interleaved virtual_stages=2 "
                "model.tie_word_embeddings=true"},
};

// The update sums no gradient again, and does not wait for the weights that it gathers.
static void look_at_update(const graph *g, bool gathers) {
    int n_gathers = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        n_gathers += n->op == OP_gather_shards;
        if (n->op == OP_gather_shards) assert_true(n->attrs.mesh.async);
        if (n->op == OP_reduce_shard) assert_true(n->attrs.mesh.summed);
    }
    assert_true(gathers == (n_gathers > 0));
}

static void look_at_rank(arena *a, size_t i, int rank, found *sums, const op_attrs *want) {
    run_config cfg;
    programs built;
    build(a, graphs[i].ranks, rank, graphs[i].keys, &cfg, &built);
    for (int k = 0; k < built.held.n_all; k++)
        if (built.held.all[k].each_micro_batch) look_at(built.held.all[k].graph, sums, want);
    look_at_update(built.update_graph, !graphs[i].whole);
    assert_true(sums->n > 0);
}

TEST(each_sum_follows_what_adds_last) {
    for (size_t i = 0; i < N_OF(graphs); i++) {
        const op_attrs want = {.mesh = {.ranks = graphs[i].of_sum, .whole = graphs[i].whole},
                .sum = {.data_ranks = 2, .in_accum_group = graphs[i].n_micro}};
        int n_weights = 0;
        for (int rank = 0; rank < graphs[i].ranks; rank++) {
            found *sums = ARENA_NEW(a, found);
            look_at_rank(a, i, rank, sums, &want);
            for (int k = 0; k < sums->n; k++) {
                if (sums->summed_in[k] != sums->added_in[k])
                    fail_msg("case %zu, rank %d: %s is summed elsewhere than added to", i, rank,
                            sums->name[k]);
                n_weights += strstr(sums->summed_in[k]->name, "weights") != NULL;
            }
        }
        assert_true(graphs[i].in_weights == (n_weights > 0));
    }
}

// No model has a weight that two nodes add to: here is one that is multiplied by three times.
TEST(several_nodes_add) {
    found *sums = ARENA_NEW(a, found);
    graph *built = graph_new(a, "several");
    built->mesh.size[AXIS_DATA] = 6;
    tensor *value = graph_state(built, TENSOR_INPUT, "x", DT_F32, 2, (int64_t[]){3, 4}),
           *shared = graph_state(built, TENSOR_WEIGHT, "w", DT_F32, 2, (int64_t[]){4, 4}),
           *single = graph_state(built, TENSOR_WEIGHT, "v", DT_F32, 2, (int64_t[]){4, 4});
    tensor *const by[] = {shared, single, shared, shared};
    shared->trainable = single->trainable = true;
    for (int i = 0; i < 4; i++)
        value = graph_add(built, OP_matmul, 2, (tensor *[]){value, by[i]},
                &(op_attrs){.matmul.tb = 1})
                        ->out[0];
    graph_output(built, value, "y");
    OK(graph_verify(built, STAGE_BUILT));
    pass_autodiff(built, "y");
    const gradient_sums async = {.ranks = 6, .data_ranks = 3, .micro_batches = 5, .whole = true};
    pass_overlapped_sums(built, &async, INPUT_ALONE, 1);
    OK(graph_verify(built, STAGE_DIFFERENTIATED));
    look_at(built, sums,
            &(op_attrs){.mesh.ranks = 6,
                    .sum.data_ranks = 3,
                    .sum.in_accum_group = 5,
                    .mesh.whole = 1});
    assert_int_equal(sums->n, 2);
    assert_true(sums->summed_in[0] == built && sums->summed_in[1] == built);
}

// --- memory
static memory_plan memory_of(int ranks, const char *keys, const char *overlap) {
    arena *a = arena_new("memory");
    run_config cfg;
    programs built;
    backend *device;
    build(a, ranks, 0, arena_printf(a, "%s %s", keys, overlap), &cfg, &built);
    device = backend_open_planner(a, false);
    OK(programs_load(a, device, &built));
    const memory_plan memory = programs_memory(&built);
    arena_free(a);
    return memory;
}

// Sums go through a bucket, which is not part of the arena; of what is left, overlapped gathers of
// weights and sums that are there already take nothing.
TEST(memory_counts_the_bucket) {
    static const struct {
        int ranks;
        const char *zero;
        int64_t vocab;
    } shapes[] = {{2, "zero=0", 512}, {2, "zero=1", 512}, {3, "zero=1", 512},
            {3, "zero=0", 200000}};
    for (size_t i = 0; i < N_OF(shapes); i++) {
        const char *keys = arena_printf(a,
                "%s training.global_batch_size=12 model.vocab_size=%lld "
                "model.tie_word_embeddings=false",
                shapes[i].zero, (long long)shapes[i].vocab);
        const memory_plan with = memory_of(shapes[i].ranks, keys, "overlap=true"),
                          without = memory_of(shapes[i].ranks, keys, "overlap=false");
        // The table of embeddings is the largest weight.
        const int64_t table = shapes[i].vocab * 64, most = 16 << 20, unit = 4 * shapes[i].ranks,
                      through = unit * shard_length(table, shapes[i].ranks),
                      bucket = through < most ? through : most / unit * unit;
        assert_int_equal(without.messages, 0);
        assert_int_equal(with.messages, bucket);
        assert_int_equal(without.communication, 4 * table);
        assert_true(with.communication - bucket < 64); // of the norm
        assert_int_equal(with.total - with.activations - with.data,
                without.total - without.activations - without.data + bucket);
    }
}

// --- a collective of two ranks, each with a back end of its own: rank 1 comes late, and what rank
// 0 does not need of it is done before
enum { RANKS = 2, N = 1500, FIRST = 1024 }; // element of the second shard
static const mesh both = {.size = {1, RANKS, 1, 1}};

static float value_of(int rank, int64_t i) {
    return (float)((rank * 101 + i * 17) % 256); // sums are exact
}

typedef enum collective { GATHER, SUM_SHARD, SUM_WHOLE, N_COLLECTIVES } collective;
// Who touches the tensor while it is written; CLOSES: nobody does before the end.
enum { SAME_PROGRAM, OTHER_PROGRAM, HOST, HOST_WRITES, OTHER_THREAD, CLOSES, N_TOUCHERS };

typedef struct scene {
    collective what;
    int who;
    gate late; // rank 1 waits here
    backend *device;
    comm *self;
    drv_status status; // of rank 0's second thread
} scene;

typedef struct rank_programs {
    backend *device;
    executable *run, *run_other;
} rank_programs;

// t travels; z = x + x does not touch it; y = t + t in the same program or in another one.
static graph *async_graph(arena *a, const scene *of) {
    graph *built = graph_new(a, "async");
    built->mesh = both;
    const int64_t dim = N, length = shard_length(N, RANKS);
    tensor *x = graph_state(built, TENSOR_INPUT, "x", DT_F32, 1, &dim), *end;
    op_attrs attrs = {.mesh.axis = AXIS_DATA, .mesh.ranks = RANKS, .mesh.async = 1};
    if (of->what == GATHER) {
        tensor *in[] = {graph_state(built, TENSOR_WEIGHT, "t", DT_F32, 1, &dim),
                graph_state(built, TENSOR_OPTIMIZER, "shard", DT_F32, 1, &length)};
        end = graph_add(built, OP_gather_shards, 2, in, &attrs)->out[0];
    } else {
        attrs.sum.data_ranks = RANKS;
        attrs.sum.in_accum_group = 1;
        attrs.mesh.whole = of->what == SUM_WHOLE;
        tensor *in[] = {graph_state(built, TENSOR_GRAD, "t", DT_F32, 1, &dim),
                graph_state(built, TENSOR_INPUT, "last", DT_I32, 1, (int64_t[]){1})};
        end = graph_add(built, OP_sum_shard, 2, in, &attrs)->out[0];
    }
    graph_output(built, graph_add(built, OP_add, 2, (tensor *[]){x, x}, NULL)->out[0], "z");
    if (of->who == SAME_PROGRAM)
        graph_output(built, graph_add(built, OP_add, 2, (tensor *[]){end, end}, NULL)->out[0], "y");
    return built;
}

static graph *reading_graph(arena *a, const scene *of) {
    graph *g = graph_new(a, "reads");
    g->mesh = both;
    tensor *t = graph_state(g, of->what == GATHER ? TENSOR_WEIGHT : TENSOR_GRAD, "t", DT_F32, 1,
            (int64_t[]){N});
    graph_output(g, graph_add(g, OP_add, 2, (tensor *[]){t, t}, NULL)->out[0], "y");
    return g;
}

// What a rank has at first: all of t for a sum; for a gather what is wrong, and its shard of it.
static drv_status fill(comm *self, const scene *of, backend *device) {
    float x[N];
    const int32_t last = 1;
    for (int64_t i = 0; i < N; i++)
        x[i] = value_of(comm_rank(self), i);
    DRV_TRY(backend_write(device, "x", 0, sizeof x, x));
    if (of->what != GATHER) {
        DRV_TRY(backend_write(device, "last", 0, sizeof last, &last));
        return backend_write(device, "t", 0, sizeof x, x);
    }
    const int64_t first = shard_first(N, RANKS, comm_rank(self)),
                  count = shard_count(N, RANKS, comm_rank(self));
    DRV_TRY(backend_write(device, "shard", 0, 4 * count, x + first));
    for (int64_t i = 0; i < N; i++)
        x[i] = -1;
    return backend_write(device, "t", 0, sizeof x, x);
}

static drv_status open_rank(comm *self, arena *a, const scene *of, rank_programs *out) {
    DRV_TRY(backend_open_host(a, &out->device));
    backend_join(out->device, self, &both);
    DRV_TRY(backend_compile(a, out->device, async_graph(a, of), NULL, &out->run));
    DRV_TRY(backend_compile(a, out->device, reading_graph(a, of), NULL, &out->run_other));
    DRV_TRY(backend_prepare(out->device));
    return fill(self, of, out->device);
}

static float expected(const scene *of, int rank, int64_t i) { // of t when all is done
    const bool second = i >= FIRST, own = second == (rank == 1);
    if (of->what == GATHER) return value_of(second, i);
    if (of->what == SUM_SHARD && !own) return value_of(rank, i);
    return value_of(0, i) + value_of(1, i);
}

static drv_status is_complete(comm *self, const scene *of, const char *name, int factor) {
    float x[N];
    DRV_TRY(backend_read(of->device, name, 0, sizeof x, x));
    for (int64_t i = 0; i < N; i++)
        if (x[i] != (float)factor * expected(of, comm_rank(self), i))
            return drv_fail(DRV_E_DATA, "collective %d, toucher %d, rank %d: %s[%lld] is %g",
                    (int)of->what, of->who, comm_rank(self), name, (long long)i, (double)x[i]);
    return DRV_OK;
}

// What comes before the collective, and what does not touch its tensor, is done.
static drv_status is_past_others(const scene *of) {
    float z[N];
    DRV_TRY(backend_read(of->device, "z", 0, sizeof z, z));
    for (int64_t i = 0; i < N; i++)
        EXPECT(of->self, z[i] == 2 * value_of(0, i));
    return DRV_OK;
}

// Once rank 0 waits for the collective: what comes before that in its program is done.
static drv_status until_it_waits(const scene *of) {
    const char *op = of->what == GATHER ? "gather_shards" : "sum_shard";
    bool waits = false;
    for (int i = 0; i < 10000 && !waits; i++, pause_ms(1))
        waits = strncmp(comm_status_now(of->self).op, op, strlen(op)) == 0;
    EXPECT(of->self, waits);
    return is_past_others(of);
}

static void *second_thread(void *arg) {
    scene *of = arg;
    of->status = of->who == OTHER_THREAD ? is_complete(of->self, of, "t", 1) : until_it_waits(of);
    gate_open(&of->late);
    return NULL;
}

// Touched without a name that another thread could see: what does not touch it is done already,
// and rank 1 comes in a while.
static drv_status touch_by_host(scene *of, const rank_programs *mine) {
    float values[N];
    pthread_t thread;
    if (comm_rank(of->self) == 0) {
        DRV_TRY(is_past_others(of));
        gate_open(&of->late);
    }
    switch (of->who) {
    case HOST:
        return is_complete(of->self, of, "t", 1);
    case HOST_WRITES: // what arrives later would be seen
        for (int64_t i = 0; i < N; i++)
            values[i] = 7;
        DRV_TRY(backend_write(mine->device, "t", 0, sizeof values, values));
        pause_ms(20);
        DRV_TRY(backend_read(mine->device, "t", 0, sizeof values, values));
        for (int64_t i = 0; i < N; i++)
            EXPECT(of->self, values[i] == 7);
        return DRV_OK;
    case OTHER_THREAD:
        EXPECT(of->self, pthread_create(&thread, NULL, second_thread, of) == 0);
        pthread_join(thread, NULL);
        if (of->status == DRV_OK) return DRV_OK;
        return drv_fail(of->status, "another thread finds other values");
    default:
        return DRV_OK;
    }
}

// Touched by a node of this rank, while another thread looks at what it waits for.
static drv_status touch_by_node(scene *of, const rank_programs *mine) {
    pthread_t thread;
    const bool watches = comm_rank(of->self) == 0;
    if (watches) EXPECT(of->self, pthread_create(&thread, NULL, second_thread, of) == 0);
    drv_status status = backend_run(mine->device, mine->run);
    if (status == DRV_OK && of->who == OTHER_PROGRAM)
        status = backend_run(mine->device, mine->run_other);
    if (watches) pthread_join(thread, NULL);
    DRV_TRY(status);
    if (watches && of->status != DRV_OK)
        return drv_fail(of->status, "rank 0 does not wait, or what comes before waits as well");
    return is_complete(of->self, of, "y", 2);
}

static drv_status touch_it(scene *of, const rank_programs *mine) {
    if (of->who == SAME_PROGRAM || of->who == OTHER_PROGRAM) return touch_by_node(of, mine);
    DRV_TRY(backend_run(mine->device, mine->run));
    return touch_by_host(of, mine);
}

static drv_status run_scene(comm *self, arena *a, scene *of) {
    rank_programs mine;
    DRV_TRY(open_rank(self, a, of, &mine));
    of->device = mine.device;
    of->self = self;
    const drv_status status = touch_it(of, &mine);
    gate_open(&of->late); // whatever has failed
    backend_close(mine.device);
    DRV_TRY(status);
    const int64_t to_other = comm_rank(self) == 0 ? N - FIRST : FIRST, own = N - to_other,
                  sent = of->what == GATHER      ? own
                         : of->what == SUM_SHARD ? to_other
                                                 : N;
    EXPECT(self, comm_sent(comm_axes(self, &both, 1 << AXIS_DATA)) == 4 * sent);
    return DRV_OK;
}

// Each rank has a scene of its own but for the gate.
static drv_status play_scene(comm *self, void *ctx) {
    scene *first = ctx;
    arena *a = arena_new("scene");
    drv_status status = DRV_OK;
    if (comm_rank(self) == 0) {
        status = run_scene(self, a, first);
    } else {
        scene mine = {.what = first->what, .who = first->who, .late = GATE_INIT};
        if (!gate_pass(&first->late)) status = drv_fail(DRV_E_DATA, "rank 0 waits too early");
        pause_ms(30);
        if (status == DRV_OK) status = run_scene(self, a, &mine);
    }
    arena_free(a);
    return status;
}

TEST(whoever_touches_it_waits) {
    for (int what = 0; what < N_COLLECTIVES; what++)
        for (int who = 0; who < N_TOUCHERS; who++) {
            scene of = {.what = (collective)what, .who = who, .late = GATE_INIT};
            OK(comm_run_threads(RANKS, 1, NULL, play_scene, &of));
        }
}

// --- failures
// Rank 1 gives up before it comes to the sum: *ctx, whether rank 0 heard of it wherever it waited.
static drv_status hears(backend *device, const rank_programs *mine, bool *heard) {
    float x[N];
    drv_status status = backend_run(device, mine->run);
    if (status == DRV_OK) status = backend_run(device, mine->run_other);
    *heard = status == DRV_E_PEER && backend_read(device, "t", 0, sizeof x, x) == DRV_E_PEER;
    return status;
}

static drv_status gives_up(comm *self, void *ctx) {
    scene of = {.what = SUM_WHOLE, .who = OTHER_PROGRAM};
    arena *a = arena_new("gives up");
    rank_programs mine;
    DRV_TRY(open_rank(self, a, &of, &mine));
    drv_status status = DRV_E_DATA;
    if (comm_rank(self) == 0) status = hears(mine.device, &mine, ctx);
    if (comm_rank(self) == 1) (void)comm_abort(self, drv_fail(DRV_E_DATA, "bad row 17"));
    backend_close(mine.device);
    arena_free(a);
    return comm_rank(self) == 0 ? status : drv_fail(DRV_E_DATA, "bad row 17");
}

TEST(who_waits_hears_of_a_failure) {
    bool heard = false;
    FAILS(comm_run_threads(RANKS, 1, NULL, gives_up, &heard), DRV_E_DATA, "bad row 17");
    assert_true(heard);
}
