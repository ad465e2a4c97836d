// y = a + b.
#include "ir/grad.h"

static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_may_alias(n, 0);
    *n_out = 1;
    return same_type(n->in[0], n->in[1]) ? NULL : "a and b must have one shape";
}

static void grad(grad_ctx *ctx, node *n) {
    for (int i = 0; i < 2; i++)
        grad_add(ctx, n->in[i], grad_of(ctx, n->out[0]));
}

static void sum_example(example *e) {
    tensor *in[] = {example_activation(e, "a", 3, 17), example_activation(e, "b", 3, 17)};
    graph_add(e->g, OP_add, 2, in, NULL);
}

const op_row op_row_add = {
        .name = "add",
        .min_in = 2,
        .max_in = 2,
        .shape = shape,
        .grad = grad,
        .built = true,
        .differentiated = true,
        .examples = {sum_example},
};

// --- narrow(x_acc[, c]) -> x [+ c] rounded to the type `to`, that of c: a sum that ranks have
// joined. Its gradient has the type that x is rounded to, and stays as it is: gradients of partial
// sums are no wider than others.
static const char *narrow_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *x = n->in[0], *c = n->n_in > 1 ? n->in[1] : NULL;
    out[0] = c ? spec_may_alias(n, 1) : spec_like(x);
    out[0].dt = n->attrs.narrow.to;
    *n_out = 1;
    if (c && (c->dt != n->attrs.narrow.to || !same_shape(c, x))) return "c must be like the result";
    return x->dt == dtype_acc(n->attrs.narrow.to) ? NULL : "x must be of the accumulation type";
}

static void narrow_grad(grad_ctx *ctx, node *n) {
    for (int i = 0; i < n->n_in; i++)
        grad_add(ctx, n->in[i], grad_of(ctx, n->out[0]));
}

static void narrow_example(example *e) {
    const dtype dt = e->dt;
    e->dt = dtype_acc(dt);
    tensor *x = example_activation(e, "x", 3, 17);
    e->dt = dt;
    graph_add(e->g, OP_narrow, 1, &x, &(op_attrs){.narrow.to = dt});
}

static void narrow_sum_example(example *e) {
    const dtype dt = e->dt;
    e->dt = dtype_acc(dt);
    tensor *in[] = {example_activation(e, "x", 3, 17), NULL};
    e->dt = dt;
    in[1] = example_activation(e, "c", 3, 17);
    graph_add(e->g, OP_narrow, 2, in, &(op_attrs){.narrow.to = dt});
}

const op_row op_row_narrow = {
        .name = "narrow",
        .min_in = 1,
        .max_in = 2,
        .shape = narrow_shape,
        .grad = narrow_grad,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR(narrow, to)),
        .examples = {narrow_example, narrow_sum_example},
};
