// Ops with an axis on eight local devices of a PJRT plugin, one rank each, against the CPU back end
// on as many threads: values and gradients, fp32 and bf16. And what a pool of devices refuses.
// Skipped, saying so, where there is no plugin.
#include "ranks.h"

#include <math.h>

#include "backend/pjrt/pjrt_backend.h"
#include "ir/grad.h"
#include "ir/shard.h"
#include "ir/zigzag.h"
#include "pjrt_pool.h"

enum { RANKS = 8, MAX_STATES = 12, MOST = 4096, TEST_BLOCK = 8 };
enum { DATA_X_TENSOR, DATA_X_FOUR, DATA_X_CONTEXT, ALL_THREE };
static const mesh meshes[] = {{.size = {1, 4, 1, 2}}, {.size = {1, 2, 1, 4}},
        {.size = {1, 2, 4, 1}}, {.size = {1, 2, 2, 2}}};

// --- cases: each builds a graph; what it names is compared
typedef struct built_case {
    graph *g;
    dtype dt;
    mesh ranks;
    mesh_axis axis;
    int dim;
} built_case;

static tensor *state(const built_case *c, tensor_class cls, const char *name, dtype dt,
        int64_t rows, int64_t cols) {
    return graph_state(c->g, cls, name, dt, cols ? 2 : 1, (int64_t[]){rows, cols});
}

static op_attrs along(const built_case *c) {
    return (op_attrs){.mesh.axis = (int)c->axis,
            .mesh.ranks = c->ranks.size[c->axis],
            .mesh.dim = c->dim};
}

// The value, and the gradient by the rule of its row for a given gradient of the value.
static void with_gradient(const built_case *c, op_kind op) {
    const op_attrs attrs = along(c);
    tensor *x = state(c, TENSOR_WEIGHT, "x", c->dt, 16, 24);
    node *n = graph_add(c->g, op, 1, &x, &attrs);
    tensor *y = n->out[0], *twice[] = {y, y};
    grad_ctx ctx = grad_open(c->g);
    ctx.d[y->id] = state(c, TENSOR_INPUT, "dy", c->dt, y->dim[0], y->dim[1]);
    op_rows[op]->grad(&ctx, n);
    tensor *dx[] = {grad_of(&ctx, x), grad_of(&ctx, x)};
    graph_output(c->g, graph_add(c->g, OP_add, 2, twice, NULL)->out[0], "y");
    graph_output(c->g, graph_add(c->g, OP_add, 2, dx, NULL)->out[0], "dx");
}

static void share(const built_case *c) {
    with_gradient(c, OP_share);
}

static void all_reduce(const built_case *c) {
    with_gradient(c, OP_all_reduce);
}

static void all_gather(const built_case *c) {
    with_gradient(c, OP_all_gather);
}

static void reduce_scatter(const built_case *c) {
    with_gradient(c, OP_reduce_scatter);
}

// Of state, in place: what the gradients of a step are.
static void reduce_state(const built_case *c) {
    op_attrs attrs = along(c);
    attrs.mesh.in_place = 1;
    tensor *g = state(c, TENSOR_GRAD, "g", DT_F32, 16, 24);
    graph_add(c->g, OP_all_reduce, 1, &g, &attrs);
}

// Shards of a tensor that they do not divide: the last one is short, or ranks have none.
static void shards_of(const built_case *c, int64_t rows, int64_t cols) {
    const op_attrs attrs = along(c);
    tensor *g = state(c, TENSOR_GRAD, "g", DT_F32, rows, cols),
           *w = state(c, TENSOR_WEIGHT, "w", c->dt, rows, cols);
    tensor *summed = graph_add(c->g, OP_reduce_shard, 1, &g, &attrs)->out[0];
    tensor *taken = graph_add(c->g, OP_take_shard, 1, &w, &attrs)->out[0];
    tensor *twice[] = {taken, taken};
    tensor *put_back[] = {w, graph_add(c->g, OP_add, 2, twice, NULL)->out[0]};
    graph_output(c->g, summed, "summed");
    graph_add(c->g, OP_gather_shards, 2, put_back, &attrs);
}

static void shards(const built_case *c) {
    shards_of(c, 100, 31);
}

static void small_shards(const built_case *c) {
    shards_of(c, 9, 5);
}

// Beside what is on all tensor ranks alike.
static void squares(const built_case *c) {
    tensor *in[] = {state(c, TENSOR_GRAD, "same_a", DT_F32, 40, 31),
            state(c, TENSOR_GRAD, "same_b", DT_F32, 7, 0),
            state(c, TENSOR_GRAD, "c", DT_F32, 40, 31)};
    const op_attrs attrs = {.mesh.axes = 1 << AXIS_TENSOR | 1 << AXIS_DATA, .mesh.n_alike = 2};
    graph_output(c->g, graph_add(c->g, OP_sum_squares, 3, in, &attrs)->out[0], "norm2");
}

enum { VOCAB = 22 }; // of all tensor ranks
static void embedding(const built_case *c) {
    op_attrs attrs = along(c);
    const int64_t here = attrs.vocabulary.part = VOCAB / attrs.mesh.ranks;
    tensor *ids = state(c, TENSOR_INPUT, "same_ids", DT_I32, 12, 0);
    tensor *in[] = {ids, state(c, TENSOR_WEIGHT, "table", c->dt, here, 5)};
    tensor *grad[] = {ids, state(c, TENSOR_INPUT, "dx", c->dt, 12, 5),
            state(c, TENSOR_GRAD, "acc", DT_F32, here, 5)};
    graph_output(c->g, graph_add(c->g, OP_embedding, 2, in, &attrs)->out[0], "rows");
    graph_add(c->g, OP_embedding_grad, 3, grad, &attrs);
}

static void loss_of(const built_case *c, op_kind op) {
    op_attrs attrs = along(c);
    attrs.vocabulary.chunk = 5; // three of 12 tokens, the last one shorter
    attrs.vocabulary.part = VOCAB / attrs.mesh.ranks;
    tensor *in[] = {state(c, TENSOR_WEIGHT, "same_h", c->dt, 12, 7),
            state(c, TENSOR_WEIGHT, "w", c->dt, VOCAB / attrs.mesh.ranks, 7),
            state(c, TENSOR_INPUT, "same_labels", DT_I32, 12, 0), NULL, NULL};
    const bool grad = op == OP_linear_cross_entropy_grad;
    if (grad) in[3] = state(c, TENSOR_INPUT, "same_dloss", DT_F64, 1, 0);
    if (grad) in[4] = state(c, TENSOR_GRAD, "acc", DT_F32, VOCAB / attrs.mesh.ranks, 7);
    const node *n = graph_add(c->g, op, grad ? 5 : 3, in, &attrs);
    graph_output(c->g, n->out[0], "loss");
    graph_output(c->g, n->out[1], grad ? "dh" : "losses");
}

static void loss(const built_case *c) {
    loss_of(c, OP_linear_cross_entropy);
}

static void loss_grad(const built_case *c) {
    loss_of(c, OP_linear_cross_entropy_grad);
}

// Key-value heads that two of four tensor ranks share.
enum { HEADS = 2, HEAD_DIM = 6, TOKENS = 15 };
static void heads(const built_case *c) {
    op_attrs attrs = along(c);
    attrs.mesh.replicas = 2;
    attrs.heads.n_heads = HEADS;
    attrs.heads.head_dim = HEAD_DIM;
    const int64_t columns = (int64_t)HEADS * HEAD_DIM, share = HEAD_DIM / attrs.mesh.replicas;
    tensor *x = state(c, TENSOR_INPUT, "x", c->dt, TOKENS, columns + 2 * share),
           *whole = graph_add(c->g, OP_gather_kv, 1, &x, &attrs)->out[0],
           *sums = state(c, TENSOR_INPUT, "sums", DT_F32, TOKENS, columns + (int64_t)2 * HEAD_DIM);
    graph_output(c->g, whole, "whole");
    attrs.narrow.to = c->dt;
    tensor *joined = graph_add(c->g, OP_join_kv, 1, &sums, &attrs)->out[0];
    graph_output(c->g, joined, "joined");
    attrs.narrow.to = 0;
    graph_output(c->g, graph_add(c->g, OP_slice_kv, 1, &joined, &attrs)->out[0], "sliced");
}

// Rows that ranks share, each with two documents: `seq` tokens of two rows on each rank.
enum { ROWS = 2, GROUPS = 2 };
static void attention_of(const built_case *c, int64_t seq, bool grad) {
    op_attrs attrs = along(c);
    attrs.heads.n_heads = 2 * GROUPS;
    attrs.heads.n_kv_heads = GROUPS;
    attrs.heads.head_dim = HEAD_DIM;
    attrs.attention.seq = (int)seq;
    const int64_t width = (int64_t)2 * GROUPS * HEAD_DIM;
    tensor *in[] = {state(c, TENSOR_INPUT, "qkv", c->dt, ROWS * seq, 2 * width),
            state(c, TENSOR_INPUT, "position", DT_I32, ROWS * seq, 0)};
    node *n = graph_add(c->g, OP_attention, 2, in, &attrs);
    tensor *of_grad[] = {state(c, TENSOR_INPUT, "do", c->dt, ROWS * seq, width), in[0], n->out[0],
            n->out[1], in[1]};
    if (grad)
        graph_output(c->g, graph_add(c->g, OP_attention_grad, 5, of_grad, &attrs)->out[0], "dqkv");
    graph_output(c->g, n->out[0], "o");
    graph_output(c->g, n->out[1], "lse");
}

static void ring(const built_case *c) {
    attention_of(c, 14, true);
}

// Chunks of three blocks, the last one shorter; keys alone are looked at in several.
static void ring_of_blocks(const built_case *c) {
    attention_of(c, 2L * (2 * TEST_BLOCK + 1), true);
}

typedef struct case_of {
    const char *name;
    void (*build)(const built_case *c);
    mesh_axis axis;
    int dim;
    int mesh;
} case_of;
static const case_of cases[] = {{"share", share, AXIS_TENSOR, 0, DATA_X_TENSOR},
        {"all_reduce data", all_reduce, AXIS_DATA, 0, DATA_X_TENSOR},
        {"all_reduce tensor", all_reduce, AXIS_TENSOR, 0, DATA_X_TENSOR},
        {"all_gather data", all_gather, AXIS_DATA, 0, DATA_X_TENSOR},
        {"all_gather columns", all_gather, AXIS_TENSOR, 1, DATA_X_TENSOR},
        {"reduce_scatter tensor", reduce_scatter, AXIS_TENSOR, 0, DATA_X_TENSOR},
        {"reduce_scatter columns", reduce_scatter, AXIS_DATA, 1, DATA_X_TENSOR},
        {"all_reduce of state", reduce_state, AXIS_DATA, 0, DATA_X_TENSOR},
        {"shards", shards, AXIS_DATA, 0, DATA_X_TENSOR},
        {"small shards", small_shards, AXIS_DATA, 0, DATA_X_TENSOR},
        {"sum_squares", squares, AXIS_DATA, 0, DATA_X_TENSOR},
        {"embedding", embedding, AXIS_TENSOR, 0, DATA_X_TENSOR},
        {"loss", loss, AXIS_TENSOR, 0, DATA_X_TENSOR},
        {"loss and gradients", loss_grad, AXIS_TENSOR, 0, DATA_X_TENSOR},
        {"shared heads", heads, AXIS_TENSOR, 0, DATA_X_FOUR},
        {"ring of four", ring, AXIS_CONTEXT, 0, DATA_X_CONTEXT},
        {"ring of two, blocks", ring_of_blocks, AXIS_CONTEXT, 0, ALL_THREE}};
enum { N_CASES = sizeof cases / sizeof *cases };

// --- what a rank has of all named tensors after a run
typedef struct results {
    int n;
    struct {
        const char *name;
        int64_t n_elements;
        double x[MOST];
    } of[MAX_STATES];
} results;

typedef struct all_ranks { // of one case on one back end
    device_pool *pool;     // NULL: cpu
    const case_of *which;
    dtype dt;
    results *of; // [RANKS]
} all_ranks;

// Of a token of rows that are cut zigzag; the second document of row r begins at token 9 + 4 r.
static double position_of(const tensor *t, const mesh *m, int rank, int64_t i) {
    const int ranks = m->size[AXIS_CONTEXT], place = mesh_place(m, rank, AXIS_CONTEXT);
    const int64_t seq = t->dim[0] / ROWS, row = i / seq;
    const zigzag cut = {ranks, 1, seq * ranks};
    const int64_t u = zigzag_chunk_tokens(&cut), chunk = i % seq / u, second = 9 + 4 * row;
    const int64_t token = zigzag_chunk(&cut, place, (int)chunk) * u + i % u;
    return (double)(token < second ? token : token - second);
}

static double value_of(const tensor *t, const mesh *m, int rank, int64_t i) {
    if (strcmp(t->name, "position") == 0) return position_of(t, m, rank, i);
    const bool same = strncmp(t->name, "same_", 5) == 0;
    const uint64_t seed = hash_name(t->name) + (uint64_t)(same ? rank / 2 : rank) * 1000;
    const double x = noise(seed, (uint64_t)i);
    return t->dt == DT_I32 ? (i == 7 ? -1 : floor((x + 1) * VOCAB / 2)) : x;
}

static drv_status run_case(comm *self, void *ctx) {
    all_ranks *all = ctx;
    arena *a = arena_new("case");
    backend *device;
    executable *program;
    results *out = &all->of[comm_rank(self)];
    const backend_opts opts = {.pool = all->pool, .device = comm_rank(self)};
    const mesh ranks = meshes[all->which->mesh];
    const built_case built = {.g = graph_new(a, "case"),
            .dt = all->dt,
            .ranks = ranks,
            .axis = all->which->axis,
            .dim = all->which->dim};
    DRV_TRY(backend_open(a, all->pool ? "pjrt" : "cpu", &opts, &device));
    backend_join(device, self, &ranks);
    if (all->pool) pjrt_lowering(device)->attention_block = TEST_BLOCK;
    built.g->mesh = ranks;
    all->which->build(&built);
    built.g->stage = STAGE_DIFFERENTIATED;
    DRV_TRY(graph_verify(built.g, STAGE_DIFFERENTIATED));
    DRV_TRY(backend_compile(a, device, built.g, NULL, &program));
    DRV_TRY(backend_prepare(device));
    for (int pass = 0; pass < 2; pass++) {
        out->n = 0;
        for (int i = 0; i < built.g->n_tensors; i++) {
            const tensor *t = built.g->tensors[i];
            if (!t->name || t->cls == TENSOR_TEMP || t->alias) continue;
            if (strncmp(t->name, "grad.", 5) == 0) continue; // of grad_open, used by nobody
            EXPECT(self, tensor_elements(t) <= MOST && out->n < MAX_STATES);
            for (int64_t k = 0; k < tensor_elements(t) && pass == 0 && !t->def; k++)
                element_write(device, t, k, value_of(t, &ranks, comm_rank(self), k));
            for (int64_t k = 0; k < tensor_elements(t) && pass == 1; k++)
                out->of[out->n].x[k] = element_read(device, t, k);
            out->of[out->n].name = all->which->name;
            out->of[out->n++].n_elements = tensor_elements(t);
        }
        if (pass == 0) DRV_TRY(backend_run(device, program));
    }
    backend_close(device);
    arena_free(a);
    return DRV_OK;
}

static void compare(const all_ranks *got, const all_ranks *want) {
    const double bound = got->dt == DT_BF16 ? 0x1p-6 : 1e-5;
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < want->of[rank].n; i++) {
            const int64_t n = want->of[rank].of[i].n_elements;
            assert_int_equal(got->of[rank].of[i].n_elements, n);
            double error = 0;
            for (int64_t k = 0; k < n; k++) // an empty shard is all zeros
                error += fabs(got->of[rank].of[i].x[k] - want->of[rank].of[i].x[k]);
            if (error != 0)
                error = relative_error(got->of[rank].of[i].x, want->of[rank].of[i].x, n);
            if (!(error <= bound))
                fail_msg("%s, %s, rank %d, tensor %d: relative error %.3g, bound %.3g",
                        got->which->name, dtype_name(got->dt), rank, i, error, bound);
        }
}

static void every_case(void **state) {
    results *got = mem_zeroed(sizeof *got * RANKS), *want = mem_zeroed(sizeof *want * RANKS);
    for (int i = 0; i < N_CASES; i++)
        for (int dt = DT_F32; dt <= DT_BF16; dt++) {
            all_ranks on_devices = {*state, &cases[i], (dtype)dt, got},
                      on_cpu = {NULL, &cases[i], (dtype)dt, want};
            OK(comm_run_threads(RANKS, 1, NULL, run_case, &on_devices));
            OK(comm_run_threads(RANKS, 1, NULL, run_case, &on_cpu));
            compare(&on_devices, &on_cpu);
        }
    free(got);
    free(want);
}

int main(void) {
    return run_on_pool(RANKS, "every_case", every_case);
}
