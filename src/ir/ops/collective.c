// Collectives over one axis of the mesh. Gradients pair up as in Megatron's parallel layers
// (arXiv:2205.05198, section 4.1): all_gather <-> reduce_scatter, all_reduce <-> identity.
#include "ir/grad.h"

static const char *check(const node *n) {
    if (n->attrs.ranks < 1) return "ranks must be positive";
    return n->in[0]->dt == DT_I32 ? "inputs must be real" : NULL;
}

// all_reduce(x) -> sum over the axis.
static const char *reduce_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_may_alias(n, 0);
    *n_out = 1;
    return check(n);
}

static void reduce_grad(grad_ctx *ctx, node *n) {
    grad_add(ctx, n->in[0], grad_of(ctx, n->out[0]));
}

// Of one rank: all that a test in one process can run.
static void one_rank(example *e, op_kind op) {
    tensor *in[] = {example_activation(e, "x", 4, 5)};
    graph_add(e->g, op, 1, in, &(op_attrs){.axis = AXIS_TENSOR, .ranks = 1});
}

static void reduce_example(example *e) {
    one_rank(e, OP_all_reduce);
}

const op_row op_row_all_reduce = {
        .name = "all_reduce",
        .min_in = 1,
        .max_in = 1,
        .shape = reduce_shape,
        .grad = reduce_grad,
        .built = true,
        .differentiated = true,
        .attrs = ATTR(axis) | ATTR(ranks),
        .examples = {reduce_example},
};

static void gather_grad(grad_ctx *ctx, node *n);
static void scatter_grad(grad_ctx *ctx, node *n);

// all_gather(x[n,...]) -> [n * ranks, ...], rank by rank along dim 0.
static const char *gather_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_like(n->in[0]);
    out[0].dim[0] *= n->attrs.ranks;
    *n_out = 1;
    return check(n);
}

static void gather_example(example *e) {
    one_rank(e, OP_all_gather);
}

const op_row op_row_all_gather = {
        .name = "all_gather",
        .min_in = 1,
        .max_in = 1,
        .shape = gather_shape,
        .grad = gather_grad,
        .built = true,
        .differentiated = true,
        .attrs = ATTR(axis) | ATTR(ranks),
        .examples = {gather_example},
};

// reduce_scatter(x[n * ranks, ...]) -> [n, ...]: this rank's part of the sum.
static const char *scatter_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_like(n->in[0]);
    *n_out = 1;
    const char *bad = check(n);
    if (bad) return bad;
    if (out[0].dim[0] % n->attrs.ranks) return "ranks must divide dim 0";
    out[0].dim[0] /= n->attrs.ranks;
    return NULL;
}

static void scatter_example(example *e) {
    one_rank(e, OP_reduce_scatter);
}

const op_row op_row_reduce_scatter = {
        .name = "reduce_scatter",
        .min_in = 1,
        .max_in = 1,
        .shape = scatter_shape,
        .grad = scatter_grad,
        .built = true,
        .differentiated = true,
        .attrs = ATTR(axis) | ATTR(ranks),
        .examples = {scatter_example},
};

static void transpose_grad(grad_ctx *ctx, node *n, op_kind op) {
    tensor *in[] = {grad_of(ctx, n->out[0])};
    grad_add(ctx, n->in[0], graph_add(ctx->g, op, 1, in, &n->attrs)->out[0]);
}

static void gather_grad(grad_ctx *ctx, node *n) {
    transpose_grad(ctx, n, OP_reduce_scatter);
}

static void scatter_grad(grad_ctx *ctx, node *n) {
    transpose_grad(ctx, n, OP_all_gather);
}
