// y = a + b.
#include "ir/op.h"

static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_like(n->in[0]);
    out[0].alias_in = 0;
    out[0].may_alias = true;
    *n_out = 1;
    return same_type(n->in[0], n->in[1]) ? NULL : "a and b must have one shape";
}

static void grad(grad_ctx *c, node *n) {
    for (int i = 0; i < 2; i++)
        grad_add(c, n->in[i], grad_of(c, n->out[0]));
}

static void example(graph *g, dtype dt) {
    tensor *in[] = {example_weight(g, "a", dt, 3, 17), example_weight(g, "b", dt, 3, 17)};
    graph_add(g, OP_add, 2, in, NULL);
}

const op_row op_row_add = {
        .name = "add",
        .min_in = 2,
        .max_in = 2,
        .shape = shape,
        .grad = grad,
        .built = true,
        .differentiated = true,
        .example = example,
};
