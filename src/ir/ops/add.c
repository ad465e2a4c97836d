// y = a + b.
#include "ir/grad.h"

static const char *shape(const node *n, tensor_spec *out) {
    out[0] = spec_may_alias(n, 0);
    return same_type(n->in[0], n->in[1]) ? NULL : "a and b must have one shape";
}

static void grad(grad_ctx *ctx, node *n) {
    for (int i = 0; i < 2; i++)
        grad_add(ctx, n->in[i], grad_of(ctx, n->out[0]));
}

static const example_case sum_examples[] = {{.in = {IN_ACTIVATION("a", 3, 17),
                                                     IN_ACTIVATION("b", 3, 17)}},
        {0}};

const op_row op_row_add = {
        .n_in = 2,
        .shape = shape,
        .grad = grad,
        .built = true,
        .examples = sum_examples,
};

// --- narrow(x_acc[, c]) -> x [+ c] rounded to `to`, the type of c. x is a sum that ranks have
// joined. The gradient has the type `to` and is passed on unchanged: gradients of partial sums are
// no wider than others.
static const char *narrow_shape(const node *n, tensor_spec *out) {
    const tensor *x = n->in[0], *c = n->n_in > 1 ? n->in[1] : NULL;
    out[0] = c ? spec_may_alias(n, 1) : spec_like(x);
    out[0].dt = n->attrs.narrow.to;
    if (c && (c->dt != n->attrs.narrow.to || !same_shape(c, x))) return "c must be like the result";
    return x->dt == dtype_acc(n->attrs.narrow.to) ? NULL : "x must be of the accumulation type";
}

static void narrow_grad(grad_ctx *ctx, node *n) {
    for (int i = 0; i < n->n_in; i++)
        grad_add(ctx, n->in[i], grad_of(ctx, n->out[0]));
}

static void make_narrow(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    attrs.narrow.to = e->dt;
    graph_add(e->g, OP_narrow, n_in, in, &attrs);
}

#define IN_WIDE IN_DIFFERENTIATED(EXAMPLE_ACTIVATION, TENSOR_INPUT, EXAMPLE_SUMS, -1, 1, "x", 3, 17)
static const example_case narrow_examples[] = {{.in = {IN_WIDE}, .make = make_narrow},
        {.in = {IN_WIDE, IN_ACTIVATION("c", 3, 17)}, .make = make_narrow}, {0}};

const op_row op_row_narrow = {
        .n_in = 1,
        .max_in = 2,
        .shape = narrow_shape,
        .grad = narrow_grad,
        .built = true,
        .attrs = ATTRS(ATTR(narrow, to)),
        .examples = narrow_examples,
};
