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

static const char *shape(const node *n, tensor_spec *out) {
    const tensor *x = n->in[0];
    out[0] = spec_like(x);
    out[1] = spec_1d(dtype_acc(x->dt), x->dim[0]);
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

#define IN_NORMED                                                                                  \
    { IN_ACTIVATION("x", 4, 33), IN_VECTOR("w", 33) }
static const example_case examples[] = {{.in = IN_NORMED, .attrs.norm.eps = 1e-2},
        {.in = IN_NORMED, .attrs.norm.eps = 1e-2, .row_blocks = 2},
        // Two reduction blocks of the row, each of two partial sums.
        {.in = IN_NORMED, .attrs.norm.eps = 1e-2, .row_blocks = 2, .partial_sums = 2}, {0}};

const op_row op_row_rmsnorm = {
        .n_in = 2,
        .shape = shape,
        .attrs = ATTRS(ATTR(norm, eps), ATTR_RANKS, ATTR(sum, blocks)),
        .grad = grad,
        .n_statistics = 1,
        .cheap = true,
        .built = true,
        .examples = examples,
};

// --- add_rmsnorm(x, d, w) -> h, y, r
static const char *add_shape(const node *n, tensor_spec *out) {
    const tensor *x = n->in[0];
    out[0] = spec_may_alias(n, 0);
    out[1] = spec_like(x);
    out[2] = spec_1d(dtype_acc(x->dt), x->dim[0]);
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

static const example_case add_examples[] = {{.in = {IN_ACTIVATION("x", 4, 33),
                                                     IN_ACTIVATION("d", 4, 33), IN_VECTOR("w", 33)},
                                                    .attrs.norm.eps = 1e-2},
        {0}};

const op_row op_row_add_rmsnorm = {
        .n_in = 3,
        .shape = add_shape,
        .attrs = ATTRS(ATTR(norm, eps), ATTR_RANKS, ATTR(sum, blocks)),
        .grad = add_grad,
        .n_statistics = 1,
        .n_kept = 1,
        .remake = add_remake,
        .cheap = true,
        .built = true,
        .examples = add_examples,
};

// --- rmsnorm_grad(dy, x, w, r[, acc][, dh]) -> dx[, acc']; skip_dw: no acc, w is frozen
// dx_NH = r * (dy*w - x * r^2 * mean_H(dy*w*x)) + dh;
// acc'_H = acc + sum_N(dy*x*r). r holds eps: 1/mean(x^2) in place of r^2 would be wrong.
static const char *grad_shape(const node *n, tensor_spec *out) {
    const tensor *dy = n->in[0], *x = n->in[1];
    const int acc = n->attrs.norm.skip_dw ? 0 : 4, dh = acc ? 5 : 4; // inputs; acc 0: none
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

// The inputs are x, w, dy and what follows r.
static void make_grad(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    const op_attrs forward = {.norm.eps = attrs.norm.eps};
    tensor *r = graph_add(e->g, OP_rmsnorm, 2, in, &forward)->out[1];
    tensor *all[] = {in[2], in[0], in[1], r, n_in > 3 ? in[3] : NULL, n_in > 4 ? in[4] : NULL};
    graph_add(e->g, OP_rmsnorm_grad, n_in + 1, all, &attrs);
}

#define GRAD_IN                                                                                    \
    IN_GIVEN("x", 4, 33), IN_STATE(TENSOR_WEIGHT, EXAMPLE_SUMS, -1, 1, "w", 33),                   \
            IN_GIVEN("dy", 4, 33)
#define GRAD(...) .attrs = {.norm.eps = 1e-2, __VA_ARGS__}, .make = make_grad
static const example_case grad_examples[] = {{.in = {GRAD_IN, IN_SUMS("acc", 33)}, GRAD()},
        {.in = {GRAD_IN, IN_SUMS("acc", 33), IN_GIVEN("dh", 4, 33)}, GRAD()},
        {.in = {GRAD_IN}, GRAD(.norm.skip_dw = 1)},
        {.in = {GRAD_IN, IN_GIVEN("dh", 4, 33)}, GRAD(.norm.skip_dw = 1)},
        {.in = {GRAD_IN, IN_SUMS("acc", 33), IN_GIVEN("dh", 4, 33)}, GRAD(.sum.blocks = 2)},
        {.in = {GRAD_IN, IN_SUMS("acc", 2, 33), IN_GIVEN("dh", 4, 33)}, GRAD(.sum.row_blocks = 2)},
        {.in = {GRAD_IN, IN_SUMS("acc", 33), IN_GIVEN("dh", 4, 33)}, GRAD(.sum.partial_sums = 2)},
        {.in = {GRAD_IN, IN_SUMS("acc", 2, 33)},
                GRAD(.sum = {.partial_sums = 2, .row_blocks = 2, .blocks = 3})},
        {0}};

const op_row op_row_rmsnorm_grad = {
        .n_in = 4,
        .max_in = 6,
        .shape = grad_shape,
        .wire = grad_wire,
        .attrs = ATTRS(ATTR(norm, skip_dw), ATTR(norm, eps), ATTR_RANKS, ATTR(sum, row_blocks),
                ATTR(sum, partial_sums), ATTR(sum, blocks)),
        .examples = grad_examples,
};
