// Collectives over one axis of the mesh. Gradients pair up as in Megatron's parallel layers
// (arXiv:2205.05198, section 4.1), for a loss that every rank of the axis computes alike:
//   share       value: x as it is           gradient: summed over the ranks   (Megatron's f)
//   all_reduce  value: summed               gradient: as it is                (Megatron's g)
//   all_gather <-> reduce_scatter           between ranks that then work on different parts
// So a gradient that follows a share is one of several partial sums until it has passed that share.
#include "ir/grad.h"
#include "ir/wire.h"

static const char *check(const node *n) {
    const tensor *x = n->in[0];
    if (n->attrs.mesh.ranks < 1) return "ranks must be positive";
    if (n->attrs.mesh.axis < 0 || n->attrs.mesh.axis >= N_AXES) return "the mesh has no such axis";
    if (n->attrs.mesh.dim < 0 || n->attrs.mesh.dim >= x->n_dims)
        return "the tensor has no such dim";
    return x->dt == DT_I32 ? "inputs must be real" : NULL;
}

static double bytes_in(const node *n) {
    return (double)tensor_bytes(n->in[0]);
}

// Partial sums in the accumulation type are rounded once, after they are added up and the gradients
// from other readers of x are added, as a product on one rank does (matmul_add).
static void pass_back(grad_ctx *ctx, node *n, op_kind op) {
    const tensor *x = n->in[0];
    if (!grad_wanted(ctx, x)) return;
    tensor *d = grad_of(ctx, n->out[0]);
    d = graph_add(ctx->g, op, 1, &d, &n->attrs)->out[0];
    if (d->dt == x->dt || d->dt != dtype_acc(x->dt)) {
        grad_add(ctx, x, d);
        return;
    }
    tensor *in[] = {d, grad_of(ctx, x)};
    const op_attrs attrs = {.narrow.to = x->dt};
    grad_put(ctx, x, graph_add(ctx->g, OP_narrow, in[1] ? 2 : 1, in, &attrs)->out[0]);
}

// An example for one rank, the only kind that a test in one process can run (test_layouts has
// several).
static void one_rank(example *e, op_kind op, tensor *x, op_attrs attrs) {
    attrs.mesh.axis = AXIS_TENSOR;
    attrs.mesh.ranks = 1;
    graph_add(e->g, op, 1, &x, &attrs);
}

// share(x) -> x: the ranks use x for different work from here on.
static const char *share_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_in_place(n, 0);
    *n_out = 1;
    return check(n);
}

static void share_grad(grad_ctx *ctx, node *n) {
    pass_back(ctx, n, OP_all_reduce);
}

static void share_example(example *e) {
    one_rank(e, OP_share, example_activation(e, "x", 4, 5), (op_attrs){0});
}

const op_row op_row_share = {
        .name = "share",
        .min_in = 1,
        .max_in = 1,
        .shape = share_shape,
        .grad = share_grad,
        .renames = true,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS),
        .examples = {share_example},
};

// all_reduce(x) -> sum over the axis; of its first and last rank alone where `ends`. in_place: x is
// state, which takes the sum.
static const char *reduce_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = n->attrs.mesh.in_place ? spec_in_place(n, 0) : spec_may_alias(n, 0);
    *n_out = 1;
    return check(n);
}

static void reduce_grad(grad_ctx *ctx, node *n) {
    grad_add(ctx, n->in[0], grad_of(ctx, n->out[0]));
}

static double reduce_wire(const node *n) {
    return wire_all_reduce(bytes_in(n), n->attrs.mesh.ends ? 2 : n->attrs.mesh.ranks);
}

static void reduce_example(example *e) {
    one_rank(e, OP_all_reduce, example_activation(e, "x", 4, 5), (op_attrs){0});
}

static void reduce_state_example(example *e) {
    tensor *x = example_state(e, TENSOR_GRAD, "x", dtype_acc(e->dt), 4, 5, -1, 1);
    one_rank(e, OP_all_reduce, x, (op_attrs){.mesh.in_place = 1});
}

const op_row op_row_all_reduce = {
        .name = "all_reduce",
        .min_in = 1,
        .max_in = 1,
        .shape = reduce_shape,
        .grad = reduce_grad,
        .wire = reduce_wire,
        .collective = true,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, ends), ATTR(mesh, in_place)),
        .examples = {reduce_example, reduce_state_example},
};

// all_gather(x[.., n, ..]) -> [.., n * ranks, ..]: parts in the order of places along `dim`.
static const char *gather_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_like(n->in[0]);
    *n_out = 1;
    const char *bad = check(n);
    if (!bad) out[0].dim[n->attrs.mesh.dim] *= n->attrs.mesh.ranks;
    return bad;
}

static void gather_grad(grad_ctx *ctx, node *n) {
    pass_back(ctx, n, OP_reduce_scatter);
}

static double gather_wire(const node *n) {
    return wire_gather(bytes_in(n), n->attrs.mesh.ranks);
}

static void gather_example(example *e) {
    one_rank(e, OP_all_gather, example_activation(e, "x", 4, 5), (op_attrs){0});
}

static void gather_columns_example(example *e) {
    one_rank(e, OP_all_gather, example_activation(e, "x", 4, 5), (op_attrs){.mesh.dim = 1});
}

const op_row op_row_all_gather = {
        .name = "all_gather",
        .min_in = 1,
        .max_in = 1,
        .shape = gather_shape,
        .grad = gather_grad,
        .wire = gather_wire,
        .collective = true,
        .cheap = true,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, dim)),
        .examples = {gather_example, gather_columns_example},
};

// reduce_scatter(x[.., n * ranks, ..]) -> [.., n, ..]: this rank's part of the sum.
static const char *scatter_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_like(n->in[0]);
    *n_out = 1;
    const char *bad = check(n);
    if (bad) return bad;
    if (out[0].dim[n->attrs.mesh.dim] % n->attrs.mesh.ranks) return "ranks must divide the dim";
    out[0].dim[n->attrs.mesh.dim] /= n->attrs.mesh.ranks;
    return NULL;
}

static void scatter_grad(grad_ctx *ctx, node *n) {
    pass_back(ctx, n, OP_all_gather);
}

static double scatter_wire(const node *n) {
    return wire_scatter(bytes_in(n), n->attrs.mesh.ranks);
}

static void scatter_example(example *e) {
    one_rank(e, OP_reduce_scatter, example_activation(e, "x", 4, 5), (op_attrs){0});
}

static void scatter_columns_example(example *e) {
    one_rank(e, OP_reduce_scatter, example_activation(e, "x", 4, 5), (op_attrs){.mesh.dim = 1});
}

const op_row op_row_reduce_scatter = {
        .name = "reduce_scatter",
        .min_in = 1,
        .max_in = 1,
        .shape = scatter_shape,
        .grad = scatter_grad,
        .wire = scatter_wire,
        .collective = true,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, dim)),
        .examples = {scatter_example, scatter_columns_example},
};
