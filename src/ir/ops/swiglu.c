// y_NF = silu(g) * u for rows gu_N2F = [gate, up]; arXiv:2002.05202. silu(g) = g / (1 + exp(-g)).
#include "ir/grad.h"

static const char *shape(const node *n, tensor_spec *out) {
    const tensor *gu = n->in[0];
    if (!is_matrix(gu) || gu->dim[1] % 2) return "gate and up must be one matrix of even width";
    out[0] = spec_2d(gu->dt, gu->dim[0], gu->dim[1] / 2);
    return NULL;
}

static void grad(grad_ctx *ctx, node *n) {
    tensor *in[] = {grad_of(ctx, n->out[0]), n->in[0]};
    grad_add(ctx, n->in[0], graph_add(ctx->g, OP_swiglu_grad, 2, in, NULL)->out[0]);
}

static const example_case examples[] = {{.in = {IN_ACTIVATION("gu", 3, 22)}}, {0}};

const op_row op_row_swiglu = {
        .n_in = 1,
        .shape = shape,
        .grad = grad,
        .built = true,
        .cheap = true,
        .examples = examples,
};

static const char *grad_shape(const node *n, tensor_spec *out) {
    const tensor *dy = n->in[0], *gu = n->in[1];
    out[0] = spec_may_alias(n, 1);
    if (!is_matrix(dy) || dy->dt != gu->dt || dy->dim[0] != gu->dim[0] ||
            2 * dy->dim[1] != gu->dim[1])
        return "dy must be half as wide as gate and up";
    return NULL;
}

static const example_case grad_examples[] = {{.in = {IN_GIVEN("dy", 3, 11), IN_GIVEN("gu", 3, 22)}},
        {0}};

const op_row op_row_swiglu_grad = {
        .n_in = 2,
        .shape = grad_shape,
        .examples = grad_examples,
};
