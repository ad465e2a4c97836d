// A vector that is added to every row: y_NC = x + b, the bias of a projection. b is in the
// accumulation type; each number is rounded once.
//
// The gradient of b is the sum of dy over tokens. For each partial sum of each reduction block of
// the row (ir/token_sums.h), runs of tokens are added in order, and then the runs in order. Tensor
// ranks that split the columns have all tokens.
#include "ir/grad.h"

static const char *shape(const node *n, tensor_spec *out) {
    const tensor *x = n->in[0];
    out[0] = spec_may_alias(n, 0);
    if (!is_matrix(x)) return "x must be a matrix";
    if (!is_acc(n->in[1], x->dt, x->dim[1])) return "b must be a vector as long as x's rows";
    return NULL;
}

static void grad(grad_ctx *ctx, node *n) {
    tensor *in[] = {grad_of(ctx, n->out[0]), grad_buffer(ctx, n->in[1])};
    const op_attrs attrs = {.sum.row_blocks = grad_row_blocks(ctx),
            .sum.partial_sums = grad_partial_sums(ctx)};
    if (in[1])
        grad_buffer_set(ctx, n->in[1], graph_add(ctx->g, OP_bias_grad, 2, in, &attrs)->out[0]);
    grad_add(ctx, n->in[0], in[0]);
}

static const example_case examples[] = {{.in = {IN_ACTIVATION("x", 4, 19), IN_VECTOR("b", 19)}},
        // Two reduction blocks of the row, each of two partial sums.
        {.in = {IN_ACTIVATION("x", 4, 19), IN_VECTOR("b", 19)}, .row_blocks = 2, .partial_sums = 2},
        {0}};

const op_row op_row_add_bias = {
        .n_in = 2,
        .shape = shape,
        .grad = grad,
        .cheap = true,
        .built = true,
        .examples = examples,
};

// --- bias_grad(dy_NC, acc_C) -> acc + sum_N(dy)
static const char *grad_shape(const node *n, tensor_spec *out) {
    const tensor *dy = n->in[0];
    out[0] = spec_in_place(n, 1);
    if (!is_matrix(dy)) return "dy must be a matrix";
    const tensor_spec sums = spec_by_block(&n->attrs, spec_1d(dtype_acc(dy->dt), dy->dim[1]));
    if (!is_like(n->in[1], &sums)) return "the accumulator must be as long as dy's rows";
    return check_tokens(&n->attrs, dy->dim[0]);
}

static const example_case grad_examples[] = {
        // The second run is shorter.
        {.in = {IN_GIVEN("dy", 70, 19), IN_SUMS("acc", 19)}},
        {.in = {IN_GIVEN("dy", 8, 19), IN_SUMS("acc", 2, 19)},
                .attrs.sum = {.partial_sums = 2, .row_blocks = 2}},
        {0}};

const op_row op_row_bias_grad = {
        .n_in = 2,
        .shape = grad_shape,
        .attrs = ATTRS(ATTR(sum, row_blocks), ATTR(sum, partial_sums)),
        .examples = grad_examples,
};
