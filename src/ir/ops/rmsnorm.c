// Root mean square normalisation, arXiv:1910.07467 equation 4:
//   y_NH = x * r * w,  r_N = 1/sqrt(mean_H(x^2) + eps).
// add_rmsnorm first adds the branch to the residual stream, h = x + d, and normalises the h that is
// stored, so that h alone is enough to get y again.
//
// The weight's gradient is a sum over tokens: of so many equal runs of them (`blocks`), joined in a
// tree. With `ranks`, each has a part of the tokens, and the sum is that of all: they tell each
// other theirs in rmsnorm_grad. `row_blocks`: there are so many reduction blocks of the row, the
// tokens of each are cut in these runs, and each has an accumulator of its own: acc[row_blocks, H].
// `partial_sums`: the tokens of each reduction block of the row are so many partial sums, cut in
// runs likewise and added one after the other.
#include "ir/grad.h"

static const char *check(const tensor *x, const tensor *w) {
    if (!is_matrix(x)) return "x must be a matrix";
    if (!is_acc(w, x->dt, x->dim[1])) return "w must be a vector as long as x's rows";
    return NULL;
}

static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *x = n->in[0];
    out[0] = spec_like(x);
    out[1] = spec_1d(dtype_acc(x->dt), x->dim[0]);
    *n_out = 2;
    return check(x, n->in[1]);
}

// x, w, r are what was normalised; dh is what flows past the norm (NULL: nothing). The gradient of
// x comes in the same pass over memory as that of w, whether it is wanted or not.
static tensor *input_grad(grad_ctx *ctx, const node *n, tensor *dy, tensor *x, tensor *w, tensor *r,
        tensor *dh) {
    tensor *in[6] = {dy, x, w, r}, *acc = grad_buffer(ctx, w);
    int n_in = 4;
    if (acc) in[n_in++] = acc;
    if (dh) in[n_in++] = dh;
    op_attrs attrs = n->attrs;
    attrs.norm.skip_dw = !acc;
    attrs.sum.row_blocks = acc ? grad_row_blocks(ctx) : 0;
    attrs.sum.partial_sums = acc ? grad_partial_sums(ctx) : 0;
    node *made = graph_add(ctx->g, OP_rmsnorm_grad, n_in, in, &attrs);
    if (acc) grad_buffer_set(ctx, w, made->out[1]);
    return made->out[0];
}

// Adds what other readers of x gave so far (the residual stream, past the norm) in the same pass,
// rounded once: as in add_rmsnorm, so a stage of a pipeline that begins here changes no bit.
static void grad(grad_ctx *ctx, node *n) {
    tensor *x = n->in[0], *dx = input_grad(ctx, n, grad_of(ctx, n->out[0]), x, n->in[1], n->out[1],
                                  grad_of(ctx, x));
    if (grad_wanted(ctx, x)) grad_put(ctx, x, dx);
}

static void norm_example(example *e) {
    tensor *in[] = {example_activation(e, "x", 4, 33),
            example_weight(e, "w", dtype_acc(e->dt), 33, 0)};
    graph_add(e->g, OP_rmsnorm, 2, in, &(op_attrs){.norm.eps = 1e-2});
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

const op_row op_row_rmsnorm = {
        .name = "rmsnorm",
        .min_in = 2,
        .max_in = 2,
        .shape = shape,
        .attrs = ATTRS(ATTR(norm, eps), ATTR_RANKS, ATTR(sum, blocks)),
        .grad = grad,
        .n_statistics = 1,
        .cheap = true,
        .built = true,
        .differentiated = true,
        .examples = {norm_example, norm_row_blocks_example, norm_partial_sums_example},
};

// --- add_rmsnorm(x, d, w) -> h, y, r
static const char *add_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *x = n->in[0];
    out[0] = spec_may_alias(n, 0);
    out[1] = spec_like(x);
    out[2] = spec_1d(dtype_acc(x->dt), x->dim[0]);
    *n_out = 3;
    if (!same_type(x, n->in[1])) return "x and d must have one shape";
    return check(x, n->in[2]);
}

// Passes what flows into h alone (dy NULL) past the norm unchanged.
static void add_grad(grad_ctx *ctx, node *n) {
    tensor *dh = grad_of(ctx, n->out[0]), *dy = grad_of(ctx, n->out[1]);
    tensor *dx = dy ? input_grad(ctx, n, dy, n->out[0], n->in[2], n->out[2], dh) : dh;
    grad_add(ctx, n->in[0], dx);
    grad_add(ctx, n->in[1], dx);
}

static node *add_remake(graph *g, const node *n) {
    tensor *in[] = {n->out[0], n->in[2]};
    return graph_make(g, OP_rmsnorm, 2, in, &n->attrs);
}

static void add_example(example *e) {
    tensor *in[] = {example_activation(e, "x", 4, 33), example_activation(e, "d", 4, 33),
            example_weight(e, "w", dtype_acc(e->dt), 33, 0)};
    graph_add(e->g, OP_add_rmsnorm, 3, in, &(op_attrs){.norm.eps = 1e-2});
}

const op_row op_row_add_rmsnorm = {
        .name = "add_rmsnorm",
        .min_in = 3,
        .max_in = 3,
        .shape = add_shape,
        .attrs = ATTRS(ATTR(norm, eps), ATTR_RANKS, ATTR(sum, blocks)),
        .grad = add_grad,
        .n_statistics = 1,
        .n_kept = 1,
        .remake = add_remake,
        .cheap = true,
        .built = true,
        .differentiated = true,
        .examples = {add_example},
};

// --- rmsnorm_grad(dy, x, w, r[, acc][, dh]) -> dx[, acc']; skip_dw: no acc, w is frozen
// dx_NH = r * (dy*w - x * r^2 * mean_H(dy*w*x)) + dh;
// acc'_H = acc + sum_N(dy*x*r). r holds eps: 1/mean(x^2) in place of r^2 would be wrong.
static const char *grad_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *dy = n->in[0], *x = n->in[1];
    const int acc = n->attrs.norm.skip_dw ? 0 : 4, dh = acc ? 5 : 4; // inputs; acc 0: none
    *n_out = acc ? 2 : 1;
    if (n->n_in < dh || n->n_in > dh + 1) return "acc and skip_dw exclude each other";
    const bool has_dh = n->n_in > dh;
    out[0] = spec_like(x);
    out[0].alias_in = has_dh ? dh : 0;
    out[0].may_alias = true;
    if (acc) out[1] = spec_in_place(n, acc);
    if (!same_type(dy, x) || (has_dh && !same_type(n->in[dh], x))) return "dy, x, dh differ";
    if (!is_acc(n->in[3], x->dt, x->dim[0])) return "r must have one number per row";
    const tensor_spec sums = spec_by_block(&n->attrs, spec_1d(dtype_acc(x->dt), x->dim[1]));
    if (acc && !is_like(n->in[acc], &sums)) return "the accumulator must be a vector";
    const char *bad = acc ? check_tokens(&n->attrs, x->dim[0]) : NULL;
    return bad ? bad : check(x, n->in[2]);
}

static double grad_wire(const node *n) {
    return n->attrs.norm.skip_dw ? 0 : wire_of_tokens(&n->attrs, n->in[4]);
}

static void grad_of_example(example *e, bool frozen, bool past, op_attrs attrs) {
    const dtype acc = dtype_acc(e->dt);
    const int row_blocks = attrs.sum.row_blocks;
    const int64_t dim[] = {row_blocks, 33};
    attrs.norm.eps = 1e-2;
    attrs.norm.skip_dw = frozen;
    tensor *x = example_given(e, "x", 4, 33);
    tensor *w = example_state(e, TENSOR_WEIGHT, "w", acc, 33, 0, -1, 1);
    node *norm = graph_add(e->g, OP_rmsnorm, 2, (tensor *[]){x, w}, &(op_attrs){.norm.eps = 1e-2});
    tensor *in[6] = {example_given(e, "dy", 4, 33), x, w, norm->out[1]};
    int n_in = 4;
    if (!frozen)
        in[n_in++] = example_accumulator(e, "acc", row_blocks ? 2 : 1, row_blocks ? dim : dim + 1);
    if (past) in[n_in++] = example_given(e, "dh", 4, 33);
    graph_add(e->g, OP_rmsnorm_grad, n_in, in, &attrs);
}

static void grad_example(example *e) {
    grad_of_example(e, false, false, (op_attrs){0});
}

static void past_example(example *e) {
    grad_of_example(e, false, true, (op_attrs){0});
}

static void frozen_example(example *e) {
    grad_of_example(e, true, false, (op_attrs){0});
}

static void frozen_past_example(example *e) {
    grad_of_example(e, true, true, (op_attrs){0});
}

static void blocks_example(example *e) {
    grad_of_example(e, false, true, (op_attrs){.sum.blocks = 2});
}

static void row_blocks_example(example *e) {
    grad_of_example(e, false, true, (op_attrs){.sum.row_blocks = 2});
}

static void partial_sums_example(example *e) {
    grad_of_example(e, false, true, (op_attrs){.sum.partial_sums = 2});
}

static void partial_sums_row_blocks_example(example *e) {
    grad_of_example(e, false, false,
            (op_attrs){.sum.partial_sums = 2, .sum.row_blocks = 2, .sum.blocks = 3});
}

const op_row op_row_rmsnorm_grad = {
        .name = "rmsnorm_grad",
        .min_in = 4,
        .max_in = 6,
        .shape = grad_shape,
        .wire = grad_wire,
        .attrs = ATTRS(ATTR(norm, skip_dw), ATTR(norm, eps), ATTR_RANKS, ATTR(sum, row_blocks),
                ATTR(sum, partial_sums), ATTR(sum, blocks)),
        .differentiated = true,
        .examples = {grad_example, past_example, frozen_example, frozen_past_example,
                blocks_example, row_blocks_example, partial_sums_example,
                partial_sums_row_blocks_example},
};
