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
    const char *bad = check_ranks(&n->attrs);
    if (bad) return bad;
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

// share(x) -> x: the ranks use x for different work from here on.
static const char *share_shape(const node *n, tensor_spec *out) {
    out[0] = spec_in_place(n, 0);
    return check(n);
}

static void share_grad(grad_ctx *ctx, node *n) {
    pass_back(ctx, n, OP_all_reduce);
}

// Examples for one rank, the only kind that a test in one process can run (test_layouts has
// several).
#define ONE_RANK .axis = AXIS_TENSOR, .ranks = 1
static const example_case one_rank[] = {{.in = {IN_ACTIVATION("x", 4, 5)},
                                                .attrs.mesh = {ONE_RANK}},
        {0}};

const op_row op_row_share = {
        .n_in = 1,
        .shape = share_shape,
        .grad = share_grad,
        .renames = true,
        .built = true,
        .attrs = ATTRS(ATTR_RANKS),
        .examples = one_rank,
};

// all_reduce(x) -> the sum over the axis. `ends`: only over its first and last rank. `in_place`: x
// is state, and the sum replaces it.
static const char *reduce_shape(const node *n, tensor_spec *out) {
    out[0] = n->attrs.mesh.in_place ? spec_in_place(n, 0) : spec_may_alias(n, 0);
    return check(n);
}

static void reduce_grad(grad_ctx *ctx, node *n) {
    grad_add(ctx, n->in[0], grad_of(ctx, n->out[0]));
}

static double reduce_wire(const node *n) {
    return wire_all_reduce(bytes_in(n), n->attrs.mesh.ends ? 2 : n->attrs.mesh.ranks);
}

static const example_case reduce_examples[] = {{.in = {IN_ACTIVATION("x", 4, 5)},
                                                       .attrs.mesh = {ONE_RANK}},
        {.in = {IN_SUMS("x", 4, 5)}, .attrs.mesh = {ONE_RANK, .in_place = 1}}, {0}};

const op_row op_row_all_reduce = {
        .n_in = 1,
        .shape = reduce_shape,
        .grad = reduce_grad,
        .wire = reduce_wire,
        .collective = true,
        .built = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, ends), ATTR(mesh, in_place)),
        .examples = reduce_examples,
};

// all_gather(x[.., n, ..]) -> [.., n * ranks, ..]: parts in the order of places along `dim`.
static const char *gather_shape(const node *n, tensor_spec *out) {
    out[0] = spec_like(n->in[0]);
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

static const example_case dim_examples[] = {{.in = {IN_ACTIVATION("x", 4, 5)},
                                                    .attrs.mesh = {ONE_RANK}},
        {.in = {IN_ACTIVATION("x", 4, 5)}, .attrs.mesh = {ONE_RANK, .dim = 1}}, {0}};

const op_row op_row_all_gather = {
        .n_in = 1,
        .shape = gather_shape,
        .grad = gather_grad,
        .wire = gather_wire,
        .collective = true,
        .cheap = true,
        .built = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, dim)),
        .examples = dim_examples,
};

// reduce_scatter(x[.., n * ranks, ..]) -> [.., n, ..]: this rank's part of the sum.
static const char *scatter_shape(const node *n, tensor_spec *out) {
    out[0] = spec_like(n->in[0]);
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

const op_row op_row_reduce_scatter = {
        .n_in = 1,
        .shape = scatter_shape,
        .grad = scatter_grad,
        .wire = scatter_wire,
        .collective = true,
        .built = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, dim)),
        .examples = dim_examples,
};
