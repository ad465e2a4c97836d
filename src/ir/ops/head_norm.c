// Root mean square normalisation of each head of queries and keys before it is rotated, as Qwen3
// has it (arXiv:2505.09388, section 2): one weight for all query heads, one for all key heads, each
// as long as a head. qkv_NC holds, for each token, n_heads query heads, n_kv_heads key heads and as
// many value heads, which are copied.
//   y = x * r * w,  r = 1/sqrt(mean(x^2) + eps) of each head
//
// A weight's gradient is a sum over tokens and heads. For each partial sum of each reduction block
// of the row (ir/token_sums.h), the contribution of a head is added up token by token, and the
// contributions are added in the order of the model's heads. With `ranks` (of the tensor axis, each
// with all tokens and some heads), the ranks gather the contributions of all heads and add them in
// the same order, so the bits do not depend on the number of ranks. `replicas`: the number of
// neighbours that have the same key-value head, which counts once.
#include "ir/grad.h"
#include "ir/token_sums.h"
#include "ir/wire.h"

static const char *check(const node *n, const tensor *x, const tensor *wq, const tensor *wk) {
    const op_attrs *attrs = &n->attrs;
    if (!is_matrix(x)) return "x must be a matrix";
    if (attrs->heads.n_heads < 1 || attrs->heads.n_kv_heads < 1) return "there must be heads";
    if (x->dim[1] !=
            (int64_t)(attrs->heads.n_heads + 2 * attrs->heads.n_kv_heads) * attrs->heads.head_dim)
        return "x has not (heads + 2 kv_heads) * head_dim columns";
    if (!is_acc(wq, x->dt, attrs->heads.head_dim) || !is_acc(wk, x->dt, attrs->heads.head_dim))
        return "both weights must be as long as a head";
    if (attrs->mesh.replicas > 1 &&
            (attrs->heads.n_kv_heads != 1 || attrs->mesh.ranks % attrs->mesh.replicas))
        return "replicas must divide the ranks, which have one key-value head each";
    return NULL;
}

// Returns the number of heads that are normalised.
static int64_t normed(const node *n) {
    return n->attrs.heads.n_heads + n->attrs.heads.n_kv_heads;
}

static const char *shape(const node *n, tensor_spec *out) {
    const tensor *x = n->in[0];
    out[0] = spec_may_alias(n, 0);
    out[1] = spec_2d(dtype_acc(x->dt), x->dim[0], normed(n));
    return check(n, x, n->in[1], n->in[2]);
}

// Either both weights are trained or none is.
static void grad(grad_ctx *ctx, node *n) {
    tensor *x = n->in[0], *wq = n->in[1], *wk = n->in[2];
    tensor *in[7] = {grad_of(ctx, n->out[0]), x, wq, wk, n->out[1], grad_buffer(ctx, wq),
            grad_buffer(ctx, wk)};
    op_attrs attrs = n->attrs;
    const bool trained = in[5] && in[6];
    attrs.norm.skip_dw = !trained;
    attrs.sum.row_blocks = trained ? grad_row_blocks(ctx) : 0;
    attrs.sum.partial_sums = trained ? grad_partial_sums(ctx) : 0;
    node *made = graph_add(ctx->g, OP_head_norm_grad, trained ? 7 : 5, in, &attrs);
    if (trained) {
        grad_buffer_set(ctx, wq, made->out[1]);
        grad_buffer_set(ctx, wk, made->out[2]);
    }
    if (grad_wanted(ctx, x)) grad_add(ctx, x, made->out[0]);
}

enum { EXAMPLE_WIDTH = (6 + 2 * 2) * 6 };

// Three query heads to a key head, two key heads, two value heads, of four tokens.
#define EXAMPLE_ATTRS .heads = {6, 2, 6}, .norm.eps = 1e-2
#define IN_HEADS                                                                                   \
    { IN_ACTIVATION("x", 4, EXAMPLE_WIDTH), IN_VECTOR("wq", 6), IN_VECTOR("wk", 6) }
static const example_case examples[] = {{.in = IN_HEADS, .attrs = {EXAMPLE_ATTRS}},
        {.in = IN_HEADS, .attrs = {EXAMPLE_ATTRS}, .row_blocks = 2},
        // Two reduction blocks of the row, each of two partial sums.
        {.in = IN_HEADS, .attrs = {EXAMPLE_ATTRS}, .row_blocks = 2, .partial_sums = 2}, {0}};

const op_row op_row_head_norm = {
        .n_in = 3,
        .shape = shape,
        .attrs = ATTRS(ATTR(heads, n_heads), ATTR(heads, n_kv_heads), ATTR(heads, head_dim),
                ATTR(norm, eps), ATTR_RANKS, ATTR(mesh, replicas)),
        .grad = grad,
        .n_statistics = 1,
        .built = true,
        .examples = examples,
};

// --- head_norm_grad(dy, x, wq, wk, r[, accq, acck]) -> dx[, accq', acck']; skip_dw: there are no
// accumulators, since the weights are frozen. dx and the contribution of a head are computed as in
// rmsnorm_grad.
static const char *grad_shape(const node *n, tensor_spec *out) {
    const tensor *dy = n->in[0], *x = n->in[1];
    const bool trained = !n->attrs.norm.skip_dw;
    const tensor_spec sums =
            spec_by_block(&n->attrs, spec_1d(dtype_acc(x->dt), n->attrs.heads.head_dim));
    out[0] = spec_may_alias(n, 0);
    if (n->n_in != (trained ? 7 : 5)) return "accumulators and skip_dw exclude each other";
    for (int i = 5; i < n->n_in; i++) {
        out[i - 4] = spec_in_place(n, i);
        if (!is_like(n->in[i], &sums)) return "an accumulator must be as long as a head";
    }
    if (!same_type(dy, x)) return "dy and x differ";
    const tensor_spec r = spec_2d(dtype_acc(x->dt), x->dim[0], normed(n));
    if (!is_like(n->in[4], &r)) return "r must have one number per token and head";
    const char *bad = trained ? check_tokens(&n->attrs, x->dim[0]) : NULL;
    return bad ? bad : check(n, x, n->in[2], n->in[3]);
}

// A rank sends the contribution of each of its heads to each sum.
static double grad_wire(const node *n) {
    const int ranks = n->attrs.mesh.ranks > 1 ? n->attrs.mesh.ranks : 1;
    if (n->attrs.norm.skip_dw) return 0;
    const double numbers =
            (double)sums_of_tokens(&n->attrs) * (double)(normed(n) * n->attrs.heads.head_dim);
    return wire_gather(numbers * (double)dtype_bytes(dtype_acc(n->in[1]->dt)), ranks);
}

// The inputs are x, wq, wk, dy and the accumulators.
static void make_grad(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    const op_attrs forward = {.heads = attrs.heads, .norm.eps = attrs.norm.eps};
    tensor *all[7] = {in[3], in[0], in[1], in[2],
            graph_add(e->g, OP_head_norm, 3, in, &forward)->out[1]};
    for (int i = 4; i < n_in; i++)
        all[i + 1] = in[i];
    graph_add(e->g, OP_head_norm_grad, n_in + 1, all, &attrs);
}

#define GRAD_IN                                                                                    \
    IN_GIVEN("x", 4, EXAMPLE_WIDTH), IN_STATE(TENSOR_WEIGHT, EXAMPLE_SUMS, -1, 1, "wq", 6),        \
            IN_STATE(TENSOR_WEIGHT, EXAMPLE_SUMS, -1, 1, "wk", 6),                                 \
            IN_GIVEN("dy", 4, EXAMPLE_WIDTH)
#define GRAD(...) .attrs = {EXAMPLE_ATTRS, __VA_ARGS__}, .make = make_grad
static const example_case grad_examples[] = {{.in = {GRAD_IN, IN_SUMS("accq", 6),
                                                      IN_SUMS("acck", 6)},
                                                     GRAD()},
        {.in = {GRAD_IN}, GRAD(.norm.skip_dw = 1)},
        {.in = {GRAD_IN, IN_SUMS("accq", 6), IN_SUMS("acck", 6)}, GRAD(.sum.partial_sums = 2)},
        {.in = {GRAD_IN, IN_SUMS("accq", 2, 6), IN_SUMS("acck", 2, 6)},
                GRAD(.sum = {.partial_sums = 2, .row_blocks = 2})},
        {0}};

const op_row op_row_head_norm_grad = {
        .n_in = 5,
        .max_in = 7,
        .shape = grad_shape,
        .wire = grad_wire,
        .attrs = ATTRS(ATTR(heads, n_heads), ATTR(heads, n_kv_heads), ATTR(heads, head_dim),
                ATTR(norm, skip_dw), ATTR(norm, eps), ATTR_RANKS, ATTR(mesh, replicas),
                ATTR(sum, row_blocks), ATTR(sum, partial_sums)),
        .examples = grad_examples,
};
