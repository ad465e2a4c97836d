// Key-value heads where there are more tensor ranks than heads (docs/adr/0018). `replicas`
// neighbours along the axis share one head: each holds an equal share of the rows of k and v, and
// so of the columns of both. Columns of a token:
//
//   share:  | q: n_heads * head_dim | k: head_dim / replicas | v: head_dim / replicas |
//   whole:  | q: n_heads * head_dim | k: head_dim            | v: head_dim            |
//
// gather_kv assembles the whole from the shares. After share_kv each replica uses it for its own
// query heads, so its gradients of k and v are partial sums, which join_kv adds; slice_kv takes the
// rank's share of the result, which is the same on all replicas.
#include "ir/grad.h"
#include "ir/wire.h"

static const char *check(const node *n, int64_t kv_columns) {
    const tensor *x = n->in[0];
    const op_attrs *attrs = &n->attrs;
    if (!is_matrix(x)) return "x must be a matrix";
    if (attrs->mesh.axis != AXIS_TENSOR) return "heads are shared along the tensor axis";
    if (attrs->mesh.replicas < 1 || attrs->mesh.ranks < 1 ||
            attrs->mesh.ranks % attrs->mesh.replicas)
        return "replicas must divide the ranks";
    if (attrs->heads.head_dim % attrs->mesh.replicas) return "replicas must divide head_dim";
    if (x->dim[1] != (int64_t)attrs->heads.n_heads * attrs->heads.head_dim + 2 * kv_columns)
        return "x has not the columns of its heads";
    return NULL;
}

static int64_t columns_of_share(const node *n) {
    return n->attrs.mesh.replicas > 0 ? n->attrs.heads.head_dim / n->attrs.mesh.replicas : 0;
}

static tensor_spec with_columns(const node *n, int64_t kv_columns) {
    tensor_spec spec = spec_like(n->in[0]);
    spec.dim[1] = (int64_t)n->attrs.heads.n_heads * n->attrs.heads.head_dim + 2 * kv_columns;
    return spec;
}

// Returns the number of elements of whole keys and values.
static double kv_numbers(const node *n) {
    return 2.0 * (double)n->in[0]->dim[0] * n->attrs.heads.head_dim;
}

// --- gather_kv(share) -> whole
static const char *gather_shape(const node *n, tensor_spec *out) {
    out[0] = with_columns(n, n->attrs.heads.head_dim);
    return check(n, columns_of_share(n));
}

static void gather_grad(grad_ctx *ctx, node *n) {
    tensor *d = grad_of(ctx, n->out[0]);
    if (grad_wanted(ctx, n->in[0]))
        grad_add(ctx, n->in[0], graph_add(ctx->g, OP_slice_kv, 1, &d, &n->attrs)->out[0]);
}

static double gather_wire(const node *n) {
    const double bytes = kv_numbers(n) * (double)dtype_bytes(n->in[0]->dt);
    return wire_gather(bytes / n->attrs.mesh.replicas, n->attrs.mesh.replicas);
}

static const op_attr row_attrs[] = {ATTR(heads, n_heads), ATTR(heads, head_dim), ATTR_RANKS,
        ATTR(mesh, replicas), {0}};

// Examples for one rank, the only kind that a test in one process can run (test_kv_heads has
// several ranks).
#define ONE_RANK                                                                                   \
    {                                                                                              \
        .mesh = {.axis = AXIS_TENSOR, .ranks = 1, .replicas = 1}, .heads =                         \
        {.n_heads = 2,                                                                             \
            .head_dim = 6 }                                                                        \
    }
static const example_case examples[] = {{.in = {IN_ACTIVATION("x", 5, 24)}, .attrs = ONE_RANK},
        {0}};

const op_row op_row_gather_kv = {
        .n_in = 1,
        .shape = gather_shape,
        .grad = gather_grad,
        .wire = gather_wire,
        .collective = true,
        .cheap = true,
        .built = true,
        .attrs = row_attrs,
        .examples = examples,
};

// --- slice_kv(whole) -> share
static const char *slice_shape(const node *n, tensor_spec *out) {
    out[0] = with_columns(n, columns_of_share(n));
    return check(n, n->attrs.heads.head_dim);
}

static const example_case slice_examples[] = {{.in = {IN_GIVEN("x", 5, 24)}, .attrs = ONE_RANK},
        {0}};

const op_row op_row_slice_kv = {
        .n_in = 1,
        .shape = slice_shape,
        .attrs = row_attrs,
        .examples = slice_examples,
};

// --- share_kv(whole) -> whole
static const char *share_shape(const node *n, tensor_spec *out) {
    out[0] = spec_in_place(n, 0);
    return check(n, n->attrs.heads.head_dim);
}

static void share_grad(grad_ctx *ctx, node *n) {
    op_attrs attrs = n->attrs;
    tensor *d = grad_of(ctx, n->out[0]);
    attrs.narrow.to = n->in[0]->dt;
    if (grad_wanted(ctx, n->in[0]))
        grad_add(ctx, n->in[0], graph_add(ctx->g, OP_join_kv, 1, &d, &attrs)->out[0]);
}

const op_row op_row_share_kv = {
        .n_in = 1,
        .shape = share_shape,
        .grad = share_grad,
        .renames = true,
        .built = true,
        .attrs = row_attrs,
        .examples = examples,
};

// --- join_kv(whole, in the accumulation type) -> whole, of type `to`: columns of k and v are
// summed over the replicas and then rounded, those of q rounded.
static const char *join_shape(const node *n, tensor_spec *out) {
    out[0] = spec_like(n->in[0]);
    out[0].dt = n->attrs.narrow.to;
    if (n->in[0]->dt != dtype_acc(n->attrs.narrow.to)) return "x must be of the accumulation type";
    return check(n, n->attrs.heads.head_dim);
}

// Sums travel in the accumulation type (fp32), results in the type `to` (bf16).
static double join_wire(const node *n) {
    const int replicas = n->attrs.mesh.replicas;
    return wire_scatter(kv_numbers(n) * (double)dtype_bytes(n->in[0]->dt), replicas) +
           wire_gather(kv_numbers(n) * (double)dtype_bytes(n->attrs.narrow.to) / replicas,
                   replicas);
}

static void make_join(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    attrs.narrow.to = e->dt;
    graph_add(e->g, OP_join_kv, n_in, in, &attrs);
}

static const example_case join_examples[] = {{.in = {IN_STATE(TENSOR_INPUT, EXAMPLE_SUMS, -1, 1,
                                                      "x", 5, 24)},
                                                     .attrs = ONE_RANK,
                                                     .make = make_join},
        {0}};

const op_row op_row_join_kv = {
        .n_in = 1,
        .shape = join_shape,
        .wire = join_wire,
        .collective = true,
        .attrs = ATTRS(ATTR(heads, n_heads), ATTR(heads, head_dim), ATTR(narrow, to), ATTR_RANKS,
                ATTR(mesh, replicas)),
        .examples = join_examples,
};
