// Collectives as nodes of a graph: each rank is a thread with a back end of its own, and computes
// what it must have from what it knows of the others. And the gradients that pair up, the bytes
// that the rows promise, meshes that do not fit.
#include "ranks.h"

#include "ir/grad.h"

enum { ROWS = 4, COLS = 6, RANKS = 4 };
static const mesh data_x_tensor = {.size = {1, 2, 1, 2}};

// Element of what a rank holds: small integers, so that sums are exact.
static double held(int rank, int64_t row, int64_t col) {
    return (double)((rank * 101 + row * 17 + col * 5) % 64);
}

typedef struct case_of {
    op_kind op;
    int axis, dim;
} case_of;
static const case_of cases[] = {{OP_share, AXIS_DATA, 0}, {OP_all_reduce, AXIS_DATA, 0},
        {OP_all_reduce, AXIS_TENSOR, 0}, {OP_all_gather, AXIS_DATA, 0},
        {OP_all_gather, AXIS_TENSOR, 1}, {OP_reduce_scatter, AXIS_TENSOR, 0},
        {OP_reduce_scatter, AXIS_DATA, 1}};

// Element (row, col) of the output on this rank.
static double expected(const case_of *k, const comm_group *g, int rank, int64_t row, int64_t col) {
    double sum = 0;
    const int me = group_place(g);
    if (k->op == OP_share) return held(rank, row, col);
    if (k->op == OP_all_gather && k->dim == 0)
        return held(group_rank(g, (int)(row / ROWS)), row % ROWS, col);
    if (k->op == OP_all_gather) return held(group_rank(g, (int)(col / COLS)), row, col % COLS);
    if (k->op == OP_reduce_scatter && k->dim == 0) row += me * ROWS / 2;
    if (k->op == OP_reduce_scatter && k->dim == 1) col += me * COLS / 2;
    for (int i = 0; i < group_size(g); i++)
        sum += held(group_rank(g, i), row, col);
    return sum;
}

static drv_status one_case(comm *self, arena *a, const case_of *checked, dtype dt) {
    backend *device;
    executable *program;
    plan *planned;
    const mesh ranks = data_x_tensor;
    DRV_TRY(backend_open_host(a, &device));
    backend_join(device, self, &ranks);
    graph *built = graph_new(a, "collective");
    built->mesh = ranks;
    tensor *x = graph_state(built, TENSOR_INPUT, "x", dt, 2, (int64_t[]){ROWS, COLS});
    const op_attrs attrs = {.mesh.axis = checked->axis, .mesh.ranks = 2, .mesh.dim = checked->dim};
    tensor *y = graph_add(built, checked->op, 1, &x, &attrs)->out[0];
    if (checked->op == OP_share) y = graph_add(built, OP_add, 2, (tensor *[]){y, y}, NULL)->out[0];
    graph_output(built, y, "y");
    DRV_TRY(graph_verify(built, STAGE_BUILT));
    DRV_TRY(backend_compile(a, device, built, &planned, &program));
    DRV_TRY(backend_prepare(device));
    for (int64_t i = 0; i < ROWS * COLS; i++)
        element_write(device, x, i, held(comm_rank(self), i / COLS, i % COLS));
    comm_group *group = comm_axes(self, &ranks, 1u << checked->axis);
    const int64_t before = comm_sent(group);
    DRV_TRY(backend_run(device, program));
    EXPECT(self, (double)(comm_sent(group) - before) == planned->wire_bytes[checked->axis]);
    for (int64_t i = 0; i < tensor_elements(y); i++) {
        const double want = expected(checked, group, comm_rank(self), i / y->dim[1], i % y->dim[1]);
        EXPECT(self, element_read(device, y, i) == (checked->op == OP_share ? 2 : 1) * want);
    }
    backend_close(device);
    return DRV_OK;
}

static drv_status all_cases(comm *c, void *ctx) {
    (void)ctx;
    arena *a = arena_new("cases");
    drv_status status = DRV_OK;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && status == DRV_OK; i++)
        for (int bf16 = 0; bf16 < 2 && status == DRV_OK; bf16++)
            status = one_case(c, a, &cases[i], bf16 ? DT_BF16 : DT_F32);
    arena_free(a);
    return status;
}

TEST(every_rank_gets_its_part) {
    OK(comm_run_threads(RANKS, 1, NULL, all_cases, NULL));
}

// --- without ranks
static node *add_one(arena *a, op_kind op, int ranks, const mesh *m, graph **out) {
    graph *g = *out = graph_new(a, "g");
    if (m) g->mesh = *m;
    tensor *x = graph_state(g, TENSOR_WEIGHT, "x", DT_F32, 2, (int64_t[]){8, 3});
    const op_attrs attrs = {.mesh.axis = AXIS_TENSOR, .mesh.ranks = ranks};
    return graph_add(g, op, 1, &x, &attrs);
}

TEST(gradients_pair_up) {
    static const struct {
        op_kind forward, backward;
        int64_t rows; // of four ranks with 8 rows in
    } pairs[] = {{OP_all_gather, OP_reduce_scatter, 32}, {OP_reduce_scatter, OP_all_gather, 2},
            {OP_share, OP_all_reduce, 8}, {OP_all_reduce, N_OPS, 8}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        graph *g;
        node *n = add_one(a, pairs[i].forward, 4, NULL, &g);
        assert_int_equal(n->out[0]->dim[0], pairs[i].rows);
        grad_ctx ctx = grad_open(g);
        tensor *d = graph_state(g, TENSOR_INPUT, "d", DT_F32, 2, n->out[0]->dim);
        ctx.d[n->out[0]->id] = d;
        op_rows[pairs[i].forward]->grad(&ctx, n);
        const tensor *dx = grad_of(&ctx, n->in[0]);
        assert_non_null(dx);
        assert_int_equal(dx->dim[0], 8);
        if (pairs[i].backward == N_OPS) // the gradient as it is
            assert_ptr_equal(dx, d);
        else
            assert_int_equal(dx->def->op, pairs[i].backward);
    }
}

TEST(ranks_must_be_those_of_the_mesh) {
    const mesh m = {.size = {1, 4, 1, 2}};
    graph *g;
    add_one(a, OP_all_reduce, 2, &m, &g);
    OK(graph_verify(g, STAGE_BUILT));
    add_one(a, OP_all_reduce, 4, &m, &g);
    FAILS(graph_verify(g, STAGE_BUILT), DRV_E_DATA, "4 ranks, but the tensor axis has 2");
    add_one(a, OP_all_reduce, 2, &m, &g);
    backend *b;
    executable *program;
    OK(backend_open_host(a, &b)); // which has joined no ranks
    FAILS(backend_compile(a, b, g, NULL, &program), DRV_E_DEVICE, "the tensor axis here has 1");
    backend_close(b);
}
