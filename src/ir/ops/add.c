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
