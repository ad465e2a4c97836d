// c_MN = op(a) op(b), sums in the accumulation type. With a third input the product is added to it
// in place (weight gradients). A linear layer is x_NK W_OK^T: tb = 1. matmul_add adds to an
// activation and rounds once.
#include "ir/grad.h"

static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *a = n->in[0], *b = n->in[1];
    *n_out = 1;
    if (!is_matrix(a) || !is_matrix(b) || a->dt != b->dt)
        return "a and b must be matrices of one type";
    int64_t m = a->dim[n->attrs.ta], k = a->dim[!n->attrs.ta], kb = b->dim[n->attrs.tb];
    int64_t cols = b->dim[!n->attrs.tb];
    if (k != kb) return "inner dims differ";
    out[0] = spec_2d(a->dt, m, cols);
    if (n->n_in < 3) return NULL;
    const tensor *acc = n->in[2];
    out[0] = spec_in_place(n, 2);
    if (acc->dt != dtype_acc(a->dt) || acc->n_dims != 2 || acc->dim[0] != m || acc->dim[1] != cols)
        return "the accumulator does not fit the product";
    return NULL;
}

static double flops(const node *n) {
    const tensor *a = n->in[0];
    return 2.0 * (double)tensor_elements(n->out[0]) * (double)a->dim[!n->attrs.ta];
}

static void grad(grad_ctx *ctx, node *n) {
    tensor *a = n->in[0], *b = n->in[1], *dy = grad_of(ctx, n->out[0]);
    DRV_ASSERT(!n->attrs.ta && n->attrs.tb, "only x W^T is differentiated");
    tensor *in_b[] = {dy, a, grad_buffer(ctx, b)};
    if (in_b[2])
        grad_buffer_set(ctx, b,
                graph_add(ctx->g, OP_matmul, 3, in_b, &(op_attrs){.ta = 1})->out[0]);
    if (!grad_wanted(ctx, a)) return;
    tensor *in_a[] = {dy, b, grad_of(ctx, a)};
    if (in_a[2]) // what other readers of a gave so far
        grad_put(ctx, a, graph_add(ctx->g, OP_matmul_add, 3, in_a, NULL)->out[0]);
    else
        grad_add(ctx, a, graph_add(ctx->g, OP_matmul, 2, in_a, NULL)->out[0]);
}

static void linear_example(example *e) {
    tensor *in[] = {example_activation(e, "x", 5, 7), example_weight(e, "w", e->dt, 3, 7)};
    graph_add(e->g, OP_matmul, 2, in, &(op_attrs){.tb = 1});
}

// A single row has a path of its own on the CPU: generation.
static void one_row_example(example *e) {
    tensor *in[] = {example_activation(e, "x", 1, 37), example_weight(e, "w", e->dt, 70, 37)};
    graph_add(e->g, OP_matmul, 2, in, &(op_attrs){.tb = 1});
}

static void plain_example(example *e) {
    tensor *in[] = {example_given(e, "dy", 5, 3), example_given(e, "w", 3, 7)};
    graph_add(e->g, OP_matmul, 2, in, NULL);
}

static void accumulating_example(example *e) {
    tensor *in[] = {example_given(e, "dy", 5, 3), example_given(e, "x", 5, 7),
            example_state(e, TENSOR_GRAD, "acc", dtype_acc(e->dt), 3, 7, -1, 1)};
    graph_add(e->g, OP_matmul, 3, in, &(op_attrs){.ta = 1});
}

const op_row op_row_matmul = {
        .name = "matmul",
        .min_in = 2,
        .max_in = 3,
        .shape = shape,
        .grad = grad,
        .flops = flops,
        .built = true,
        .differentiated = true,
        .attrs = ATTR(ta) | ATTR(tb),
        .examples = {linear_example, one_row_example, plain_example, accumulating_example},
};

// --- matmul_add(a, b, c_MN) -> c + op(a) op(b), all of one type
static const char *add_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *a = n->in[0], *b = n->in[1], *c = n->in[2];
    out[0] = spec_may_alias(n, 2);
    *n_out = 1;
    if (!is_matrix(a) || !is_matrix(b) || !is_matrix(c) || a->dt != b->dt || a->dt != c->dt)
        return "a, b and c must be matrices of one type";
    if (a->dim[!n->attrs.ta] != b->dim[n->attrs.tb]) return "inner dims differ";
    if (c->dim[0] != a->dim[n->attrs.ta] || c->dim[1] != b->dim[!n->attrs.tb])
        return "c does not fit the product";
    return NULL;
}

static void add_example(example *e) {
    tensor *in[] = {example_given(e, "dy", 5, 3), example_given(e, "w", 3, 7),
            example_given(e, "c", 5, 7)};
    graph_add(e->g, OP_matmul_add, 3, in, NULL);
}

const op_row op_row_matmul_add = {
        .name = "matmul_add",
        .min_in = 3,
        .max_in = 3,
        .shape = add_shape,
        .flops = flops,
        .differentiated = true,
        .attrs = ATTR(ta) | ATTR(tb),
        .examples = {add_example},
};
