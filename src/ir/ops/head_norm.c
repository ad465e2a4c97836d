// Root mean square normalisation of each head of queries and keys before it is rotated, as Qwen3
// has it (arXiv:2505.09388, section 2): one weight for all query heads, one for all key heads, each
// as long as a head. qkv_NC holds, for each token, n_heads query heads, n_kv_heads key heads and as
// many value heads, which are copied.
//   y = x * r * w,  r = 1/sqrt(mean(x^2) + eps) of each head
//
// A weight's gradient is a sum over tokens and heads. Of each partial sum of each reduction block
// of the row (ir/token_sums.h) it is a chain over the heads of the model, in their order, of what
// each gives: a chain over its tokens. With `ranks` (of the tensor axis, which have all tokens and
// some heads) they tell each other what their heads give, and all add up alike, whatever their
// number. `replicas`: so many neighbours have the same key-value head, which counts once.
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

// The heads that are normalised.
static int64_t normed(const node *n) {
    return n->attrs.heads.n_heads + n->attrs.heads.n_kv_heads;
}

static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *x = n->in[0];
    out[0] = spec_may_alias(n, 0);
    out[1] = spec_2d(dtype_acc(x->dt), x->dim[0], normed(n));
    *n_out = 2;
    return check(n, x, n->in[1], n->in[2]);
}

// Both weights are trained, or none.
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

// Three query heads to a key head, two key heads, two value heads, of four tokens.
static const op_attrs example_attrs = {.heads = {6, 2, 6}, .norm.eps = 1e-2};
enum { EXAMPLE_WIDTH = (6 + 2 * 2) * 6 };

static void norm_example(example *e) {
    const dtype acc = dtype_acc(e->dt);
    tensor *in[] = {example_activation(e, "x", 4, EXAMPLE_WIDTH),
            example_weight(e, "wq", acc, 6, 0), example_weight(e, "wk", acc, 6, 0)};
    graph_add(e->g, OP_head_norm, 3, in, &example_attrs);
}

static void norm_row_blocks_example(example *e) {
    e->g->row_blocks = 2;
    norm_example(e);
}

// Two reduction blocks of the row, each of two partial sums.
static void norm_partial_sums_example(example *e) {
    e->g->partial_sums = 2;
    norm_row_blocks_example(e);
}

const op_row op_row_head_norm = {
        .name = "head_norm",
        .min_in = 3,
        .max_in = 3,
        .shape = shape,
        .attrs = ATTRS(ATTR(heads, n_heads), ATTR(heads, n_kv_heads), ATTR(heads, head_dim),
                ATTR(norm, eps), ATTR_RANKS, ATTR(mesh, replicas)),
        .grad = grad,
        .n_statistics = 1,
        .built = true,
        .differentiated = true,
        .examples = {norm_example, norm_row_blocks_example, norm_partial_sums_example},
};

// --- head_norm_grad(dy, x, wq, wk, r[, accq, acck]) -> dx[, accq', acck']; skip_dw: no
// accumulators, the weights are frozen. dx and what each head gives as in rmsnorm_grad.
static const char *grad_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *dy = n->in[0], *x = n->in[1];
    const bool trained = !n->attrs.norm.skip_dw;
    const tensor_spec sums =
            spec_by_block(&n->attrs, spec_1d(dtype_acc(x->dt), n->attrs.heads.head_dim));
    out[0] = spec_may_alias(n, 0);
    *n_out = trained ? 3 : 1;
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

// Bytes that a rank sends: what each head gives to each sum.
static double grad_wire(const node *n) {
    const int ranks = n->attrs.mesh.ranks > 1 ? n->attrs.mesh.ranks : 1;
    if (n->attrs.norm.skip_dw) return 0;
    const double numbers =
            (double)sums_of_tokens(&n->attrs) * (double)(normed(n) * n->attrs.heads.head_dim);
    return wire_gather(numbers * (double)dtype_bytes(dtype_acc(n->in[1]->dt)), ranks);
}

static void grad_of_example(example *e, bool frozen, sum_tree sum) {
    const dtype acc = dtype_acc(e->dt);
    const int blocks = sum.row_blocks;
    const int64_t dim[] = {blocks, 6};
    op_attrs attrs = example_attrs;
    tensor *x = example_given(e, "x", 4, EXAMPLE_WIDTH);
    tensor *wq = example_state(e, TENSOR_WEIGHT, "wq", acc, 6, 0, -1, 1),
           *wk = example_state(e, TENSOR_WEIGHT, "wk", acc, 6, 0, -1, 1);
    node *norm = graph_add(e->g, OP_head_norm, 3, (tensor *[]){x, wq, wk}, &attrs);
    tensor *in[7] = {example_given(e, "dy", 4, EXAMPLE_WIDTH), x, wq, wk, norm->out[1]};
    for (int i = 5; i < 7 && !frozen; i++)
        in[i] = example_accumulator(e, i == 5 ? "accq" : "acck", blocks ? 2 : 1,
                blocks ? dim : dim + 1);
    attrs.norm.skip_dw = frozen;
    attrs.sum = sum;
    graph_add(e->g, OP_head_norm_grad, frozen ? 5 : 7, in, &attrs);
}

static void grad_example(example *e) {
    grad_of_example(e, false, (sum_tree){0});
}

static void frozen_example(example *e) {
    grad_of_example(e, true, (sum_tree){0});
}

static void partial_sums_example(example *e) {
    grad_of_example(e, false, (sum_tree){.partial_sums = 2});
}

static void row_blocks_example(example *e) {
    grad_of_example(e, false, (sum_tree){.partial_sums = 2, .row_blocks = 2});
}

const op_row op_row_head_norm_grad = {
        .name = "head_norm_grad",
        .min_in = 5,
        .max_in = 7,
        .shape = grad_shape,
        .wire = grad_wire,
        .attrs = ATTRS(ATTR(heads, n_heads), ATTR(heads, n_kv_heads), ATTR(heads, head_dim),
                ATTR(norm, skip_dw), ATTR(norm, eps), ATTR_RANKS, ATTR(mesh, replicas),
                ATTR(sum, row_blocks), ATTR(sum, partial_sums)),
        .differentiated = true,
        .examples = {grad_example, frozen_example, partial_sums_example, row_blocks_example},
};
