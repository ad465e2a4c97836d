// Root mean square normalisation, arXiv:1910.07467 equation 4:
//   y_NH = x * r * w,  r_N = 1/sqrt(mean_H(x^2) + eps).
// add_rmsnorm first adds the branch to the residual stream, h = x + d, and normalises the h that is
// stored, so that h alone is enough to get y again.
#include "ir/op.h"

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

// x, w, r are what was normalised; dh is what flows past the norm (NULL: nothing).
static tensor *input_grad(grad_ctx *c, const node *n, tensor *dy, tensor *x, tensor *w, tensor *r,
        tensor *dh) {
    tensor *acc = grad_buffer(c, w);
    DRV_ASSERT(acc, "a norm weight without accumulator");
    tensor *in[] = {dy, x, w, r, acc, dh};
    node *k = graph_add(c->g, OP_rmsnorm_grad, dh ? 6 : 5, in, &n->attrs);
    grad_buffer_set(c, w, k->out[1]);
    return k->out[0];
}

static void grad(grad_ctx *c, node *n) {
    grad_add(c, n->in[0],
            input_grad(c, n, grad_of(c, n->out[0]), n->in[0], n->in[1], n->out[1], NULL));
}

static void example(graph *g, dtype dt) {
    tensor *in[] = {example_weight(g, "x", dt, 4, 33),
            example_weight(g, "w", dtype_acc(dt), 33, 0)};
    graph_add(g, OP_rmsnorm, 2, in, &(op_attrs){.eps = 1e-2});
}

const op_row op_row_rmsnorm = {
        .name = "rmsnorm",
        .min_in = 2,
        .max_in = 2,
        .shape = shape,
        .grad = grad,
        .built = true,
        .differentiated = true,
        .attrs = "eps",
        .example = example,
};

// --- add_rmsnorm(x, d, w) -> h, y, r
static const char *add_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *x = n->in[0];
    out[0] = spec_like(x);
    out[0].alias_in = 0;
    out[0].may_alias = true;
    out[1] = spec_like(x);
    out[2] = spec_1d(dtype_acc(x->dt), x->dim[0]);
    *n_out = 3;
    if (!same_type(x, n->in[1])) return "x and d must have one shape";
    return check(x, n->in[2]);
}

static void add_grad(grad_ctx *c, node *n) {
    tensor *dh = grad_of(c, n->out[0]), *dy = grad_of(c, n->out[1]);
    DRV_ASSERT(dy, "add_rmsnorm whose norm is not used");
    tensor *dx = input_grad(c, n, dy, n->out[0], n->in[2], n->out[2], dh);
    grad_add(c, n->in[0], dx);
    grad_add(c, n->in[1], dx);
}

static node *add_recompute(graph *g, const node *n, tensor *const *in) {
    (void)in;
    tensor *x[] = {n->out[0], n->in[2]};
    return graph_make(g, OP_rmsnorm, 2, x, &n->attrs);
}

static void add_example(graph *g, dtype dt) {
    tensor *in[] = {example_weight(g, "x", dt, 4, 33), example_weight(g, "d", dt, 4, 33),
            example_weight(g, "w", dtype_acc(dt), 33, 0)};
    graph_add(g, OP_add_rmsnorm, 3, in, &(op_attrs){.eps = 1e-2});
}

const op_row op_row_add_rmsnorm = {
        .name = "add_rmsnorm",
        .min_in = 3,
        .max_in = 3,
        .shape = add_shape,
        .grad = add_grad,
        .recompute = add_recompute,
        .built = true,
        .differentiated = true,
        .attrs = "eps",
        .example = add_example,
};

// --- rmsnorm_grad(dy, x, w, r, acc[, dh]) -> dx, acc'
// dx_NH = r * (dy*w - x * r^2 * mean_H(dy*w*x)) + dh;
// acc'_H = acc + sum_N(dy*x*r). r holds eps: 1/mean(x^2) in place of r^2 would be wrong.
static const char *grad_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *dy = n->in[0], *x = n->in[1];
    out[0] = spec_like(x);
    out[0].alias_in = n->n_in > 5 ? 5 : 0;
    out[0].may_alias = true;
    out[1] = spec_in_place(n, 4);
    *n_out = 2;
    if (!same_type(dy, x) || (n->n_in > 5 && !same_type(n->in[5], x))) return "dy, x, dh differ";
    if (!is_acc(n->in[3], x->dt, x->dim[0])) return "r must have a number a row";
    if (!is_acc(n->in[4], x->dt, x->dim[1])) return "the accumulator must be a vector";
    return check(x, n->in[2]);
}

const op_row op_row_rmsnorm_grad = {
        .name = "rmsnorm_grad",
        .min_in = 5,
        .max_in = 6,
        .shape = grad_shape,
        .differentiated = true,
        .attrs = "eps",
};
