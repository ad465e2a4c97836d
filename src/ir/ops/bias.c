// A vector that is added to every row: y_NC = x + b, the bias of a projection. b is in the
// accumulation type; each number is rounded once.
//
// The gradient of b is the sum of dy over tokens: of each partial sum of each reduction block of
// the row (ir/token_sums.h) a chain over runs of tokens, each of which is a chain. Tensor ranks
// that split the columns have all tokens.
#include "ir/grad.h"

static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *x = n->in[0];
    out[0] = spec_may_alias(n, 0);
    *n_out = 1;
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

static void bias_example(example *e) {
    tensor *in[] = {example_activation(e, "x", 4, 19),
            example_weight(e, "b", dtype_acc(e->dt), 19, 0)};
    graph_add(e->g, OP_add_bias, 2, in, NULL);
}

// Two reduction blocks of the row, each of two partial sums.
static void bias_partial_sums_example(example *e) {
    e->g->partial_sums = 2;
    e->g->row_blocks = 2;
    bias_example(e);
}

const op_row op_row_add_bias = {
        .name = "add_bias",
        .min_in = 2,
        .max_in = 2,
        .shape = shape,
        .grad = grad,
        .cheap = true,
        .built = true,
        .differentiated = true,
        .examples = {bias_example, bias_partial_sums_example},
};

// --- bias_grad(dy_NC, acc_C) -> acc + sum_N(dy)
static const char *grad_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *dy = n->in[0];
    out[0] = spec_in_place(n, 1);
    *n_out = 1;
    if (!is_matrix(dy)) return "dy must be a matrix";
    const tensor_spec sums = spec_by_block(&n->attrs, spec_1d(dtype_acc(dy->dt), dy->dim[1]));
    if (!is_like(n->in[1], &sums)) return "the accumulator must be as long as dy's rows";
    return check_tokens(&n->attrs, dy->dim[0]);
}

static void grad_of_example(example *e, int64_t tokens, sum_tree sum) {
    const int64_t dim[] = {sum.row_blocks, 19};
    tensor *in[] = {example_given(e, "dy", tokens, 19),
            example_accumulator(e, "acc", sum.row_blocks ? 2 : 1, sum.row_blocks ? dim : dim + 1)};
    graph_add(e->g, OP_bias_grad, 2, in, &(op_attrs){.sum = sum});
}

// The second run is shorter.
static void grad_example(example *e) {
    grad_of_example(e, 70, (sum_tree){0});
}

static void grad_partial_sums_example(example *e) {
    grad_of_example(e, 8, (sum_tree){.partial_sums = 2, .row_blocks = 2});
}

const op_row op_row_bias_grad = {
        .name = "bias_grad",
        .min_in = 2,
        .max_in = 2,
        .shape = grad_shape,
        .attrs = ATTRS(ATTR(sum, row_blocks), ATTR(sum, partial_sums)),
        .differentiated = true,
        .examples = {grad_example, grad_partial_sums_example},
};
