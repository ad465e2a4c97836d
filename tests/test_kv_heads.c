// More tensor ranks than key-value heads: each has an equal share of the columns of one, several
// work with the whole of it, and all degrees give the bits of one rank (docs/adr/0018).
#include "layout_bits.h"

#include "ir/grad.h"

// --- the ops on four ranks, two to a head
enum { TOKENS = 70, HEADS = 2, HEAD_DIM = 6, REPLICAS = 2, RANKS = 4, Q = HEADS * HEAD_DIM };
static const mesh four = {.size = {1, 1, 1, RANKS}};

typedef struct op_case {
    op_kind op;
    int kv_in, kv_out; // columns of k, or of v
} op_case;
static const op_case op_cases[] = {{OP_gather_kv, HEAD_DIM / REPLICAS, HEAD_DIM},
        {OP_slice_kv, HEAD_DIM, HEAD_DIM / REPLICAS}, {OP_join_kv, HEAD_DIM, HEAD_DIM}};

// Element of what a rank holds, of k or v by its column there: small integers, so that sums are
// exact.
static double held(int rank, int64_t token, int which, int64_t column) {
    return (double)((rank * 29 + token * 17 + which * 7 + column * 3) % 32);
}

static int64_t column_of(int which, int64_t column, int kv) {
    return which == 0 ? column : Q + (which - 1) * kv + column;
}

// which: 0 q, 1 k, 2 v; a column of it in the output.
static double expected(op_kind op, int rank, int64_t token, int which, int64_t column) {
    const int first = rank / REPLICAS * REPLICAS, share = HEAD_DIM / REPLICAS;
    if (which == 0) return held(rank, token, 0, column);
    if (op == OP_slice_kv) return held(rank, token, which, column + rank % REPLICAS * share);
    if (op == OP_gather_kv)
        return held(first + (int)(column / share), token, which, column % share);
    return held(first, token, which, column) + held(first + 1, token, which, column);
}

static drv_status check_columns(comm *self, backend *b, const tensor *y, const op_case *of) {
    for (int64_t t = 0; t < TOKENS; t++)
        for (int which = 0; which < 3; which++)
            for (int64_t c = 0; c < (which ? of->kv_out : Q); c++) {
                const int64_t at = t * y->dim[1] + column_of(which, c, of->kv_out);
                EXPECT(self,
                        element_read(b, y, at) == expected(of->op, comm_rank(self), t, which, c));
            }
    return DRV_OK;
}

static graph *graph_of(arena *a, const op_case *of, dtype dt, tensor **x) {
    op_attrs attrs = {.mesh.axis = AXIS_TENSOR,
            .mesh.ranks = RANKS,
            .mesh.replicas = REPLICAS,
            .heads.n_heads = HEADS,
            .heads.head_dim = HEAD_DIM};
    graph *g = graph_new(a, "heads");
    g->mesh = four;
    g->stage = STAGE_DIFFERENTIATED;
    if (of->op == OP_join_kv) attrs.narrow.to = dt;
    *x = graph_state(g, TENSOR_INPUT, "x", of->op == OP_join_kv ? DT_F32 : dt, 2,
            (int64_t[]){TOKENS, Q + 2 * of->kv_in});
    graph_output(g, graph_add(g, of->op, 1, x, &attrs)->out[0], "y");
    return g;
}

static void fill(backend *b, const tensor *x, const op_case *of, int rank) {
    for (int64_t t = 0; t < TOKENS; t++)
        for (int which = 0; which < 3; which++)
            for (int64_t c = 0; c < (which ? of->kv_in : Q); c++)
                element_write(b, x, t * x->dim[1] + column_of(which, c, of->kv_in),
                        held(rank, t, which, c));
}

static drv_status one_op(comm *self, arena *a, const op_case *of, dtype dt) {
    backend *device;
    executable *program;
    plan *planned;
    tensor *x;
    const int first = comm_rank(self) / REPLICAS * REPLICAS, pair[REPLICAS] = {first, first + 1};
    DRV_TRY(backend_open_host(a, &device));
    backend_join(device, self, &four);
    graph *built = graph_of(a, of, dt, &x);
    DRV_TRY(graph_verify(built, STAGE_DIFFERENTIATED));
    DRV_TRY(backend_compile(a, device, built, &planned, &program));
    DRV_TRY(backend_prepare(device));
    fill(device, x, of, comm_rank(self));
    comm_group *group = comm_ranks(self, "replicas of a key-value head", pair, REPLICAS);
    const int64_t before = comm_sent(group);
    DRV_TRY(backend_run(device, program));
    EXPECT(self, (double)(comm_sent(group) - before) == planned->wire_bytes[AXIS_TENSOR]);
    DRV_TRY(check_columns(self, device, built->nodes[0]->out[0], of));
    backend_close(device);
    return DRV_OK;
}

static drv_status all_ops(comm *c, void *ctx) {
    (void)ctx;
    arena *a = arena_new("ops");
    drv_status status = DRV_OK;
    for (size_t i = 0; i < sizeof op_cases / sizeof *op_cases && status == DRV_OK; i++)
        for (int bf16 = 0; bf16 < 2 && status == DRV_OK; bf16++)
            status = one_op(c, a, &op_cases[i], bf16 ? DT_BF16 : DT_F32);
    arena_free(a);
    return status;
}

TEST(ranks_put_heads_together) {
    OK(comm_run_threads(RANKS, 1, NULL, all_ops, NULL));
}

TEST(attributes_that_cannot_be_are_refused) {
    static const struct {
        op_attrs attrs;
        const char *text;
    } cases[] = {{{.mesh = {.axis = AXIS_TENSOR, .ranks = 4, .replicas = 3},
                          .heads.n_heads = 2,
                          .heads.head_dim = 6},
                         "replicas must divide the ranks"},
            {{.mesh = {.axis = AXIS_TENSOR, .ranks = 4}, .heads.n_heads = 2, .heads.head_dim = 6},
                    "replicas must divide the ranks"},
            {{.mesh = {.axis = AXIS_TENSOR, .ranks = 4, .replicas = 4},
                     .heads.n_heads = 2,
                     .heads.head_dim = 6},
                    "replicas must divide head_dim"},
            {{.mesh = {.axis = AXIS_DATA, .ranks = 1, .replicas = 1},
                     .heads.n_heads = 2,
                     .heads.head_dim = 6},
                    "along the tensor axis"},
            {{.mesh = {.axis = AXIS_TENSOR, .ranks = 4, .replicas = 2},
                     .heads.n_heads = 3,
                     .heads.head_dim = 6},
                    "has not the columns of its heads"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graph *g = graph_new(a, "g");
        tensor *x = graph_state(g, TENSOR_INPUT, "x", DT_F32, 2, (int64_t[]){3, Q + HEAD_DIM});
        node n = {.op = OP_gather_kv, .n_in = 1, .in = &x, .attrs = cases[i].attrs};
        tensor_spec out[MAX_OUT];
        int n_out;
        const char *bad = op_outputs(&n, out, &n_out);
        assert_non_null(bad);
        if (!strstr(bad, cases[i].text)) fail_msg("case %zu: %s", i, bad);
    }
}

// --- whole runs

// Two key-value heads: a rank has both, one, a half of one, a quarter of one.
TEST(every_degree) {
    static const bits_case degrees[] = {{2, 1, 1, 1, {SHARED, ZERO1}},
            {4, 1, 1, 1, {SHARED, ZERO1}}, {4, 1, 1, 1, {WHOLE, ZERO1}},
            {8, 1, 1, 1, {SHARED, ZERO1}}, {8, 1, 1, 1, {WHOLE, ZERO1}}};
    static const char *const types[] = {"training.precision=fp32", "training.precision=bf16"},
                             *const ties[] = {"model.tie_word_embeddings=true",
                                     "model.tie_word_embeddings=false"};
    for (int type = 0; type < 2; type++)
        for (int tie = 0; tie < 2; tie++) {
            const char *sets[] = {types[type], ties[tie], "model.num_key_value_heads=2",
                    "model.num_hidden_layers=2", "model.intermediate_size=176"};
            same_bits_on(degrees, sizeof degrees / sizeof *degrees, sets, 5);
        }
}

// Data ranks, shards of the optimizer and stages beside them; heads that are recomputed.
TEST(beside_every_other_axis) {
    static const bits_case meshes[] = {{4, 1, 2, 1, {SHARED, ZERO1}}, {4, 1, 2, 1, {WHOLE, ZERO0}},
            {4, 1, 1, 2, {SHARED, ZERO1}}, {2, 1, 2, 2, {SHARED, ZERO1}}};
    const char *sets[] = {"training.precision=bf16", "training.recompute=full",
            "model.num_key_value_heads=2"};
    same_bits_on(meshes, 4, sets, 3);
    sets[0] = "training.precision=fp32", sets[1] = "training.recompute=selective";
    same_bits_on(meshes, 4, sets, 3);
}

// One head for all ranks, of twelve numbers that four ranks share; a vocabulary that does not divide.
TEST(one_head_for_all) {
    static const bits_case degrees[] = {{2, 1, 1, 1, {SHARED, ZERO1}},
            {4, 1, 1, 1, {SHARED, ZERO1}}, {4, 1, 2, 1, {WHOLE, ZERO1}}};
    const char *sets[] = {"training.precision=bf16", "model.num_key_value_heads=1",
            "model.head_dim=12", "model.vocab_size=509"};
    same_bits_on(degrees, 3, sets, 4);
}

// Branches of k and v are cut as the projections are.
TEST(low_rank_branches) {
    const char *sets[] = {"training.precision=fp32", "model.num_key_value_heads=2", "lora.rank=4",
            "lora.target_modules=[k_proj, v_proj, o_proj]", "parallel.tensor_blocks=4",
            "parallel.tensor=4"};
    layout_run one = train_layout(1, sets, 5), four_ranks = train_layout(4, sets, 6);
    expect_close_numbers(&four_ranks, &one, 1e-6);
    free(one.weights), free(four_ranks.weights);
}

TEST(degrees_that_cut_no_head_evenly_are_refused) {
    static const struct {
        const char *heads, *tensor, *text;
    } cases[] = {{"model.num_key_value_heads=4", "parallel.tensor=6",
                         "6, expected a divisor of model.num_key_value_heads 4, or a multiple that "
                         "cuts a head of 10 evenly"},
            {"model.num_key_value_heads=3", "parallel.tensor=12",
                    "12, expected a divisor of model.num_key_value_heads 3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_config cfg;
        programs p;
        const char *sets[] = {"model.preset=tiny", "training.micro_batch_size=1",
                "data.sequence_length=48", "model.num_attention_heads=12", "model.head_dim=10",
                "model.intermediate_size=144", cases[i].heads, cases[i].tensor};
        OK(config_load(a, NULL, sets, 8, &cfg));
        FAILS(programs_build(a, &cfg, &p), DRV_E_USAGE, cases[i].text);
    }
}
