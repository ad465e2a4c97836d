// Linear layer and softmax cross-entropy in one op, `chunk` rows of logits at a time, so that no
// tokens x vocabulary matrix is ever stored (arXiv:2410.10989, section 3.2; arXiv:2411.09009).
//   loss = sum over tokens with label >= 0 of  logsumexp_V(h W^T) - (h W^T)[label]
// linear_cross_entropy(h_NH, w_VH, labels_N) -> loss f64[1], that of each token f64[N]. A negative
// label is not counted: its loss is 0. With `ranks`, w holds this rank's rows of a matrix of V
// rows: `part` of them, fewer on the last rank. `blocks`: the number of reduction blocks, of part /
// blocks rows each, into which the vocabulary of a rank is divided. For each of them the log of its
// sum of exponentials and the logit of the label, if the block has it, go to all ranks (16 bytes
// per token and block), which combine them in order; the sum over the vocabulary in dh is a tree
// over the blocks. With ranks dh is one of several partial sums (`dx_wide`: in the accumulation
// type). `row_blocks`: the number of reduction blocks of the row into which N is divided, each with
// a loss, a dloss and an accumulator of its own. `partial_sums`: the number of partial sums in each
// of these blocks, each with a loss and a dloss; their contributions to the gradient of w are added
// one after the other. A chunk holds whole partial sums, or part of one; the contributions of the
// parts of one are first summed `apart`. The gradient is that of the loss or, if later ops read the
// losses of tokens, that of each token's loss.
#include "ir/grad.h"
#include "ir/token_sums.h"
#include "ir/wire.h"

static const char *check(const node *n) {
    const tensor *h = n->in[0], *w = n->in[1];
    if (!is_matrix(h) || !is_matrix(w) || h->dt != w->dt || h->dim[1] != w->dim[1])
        return "h and w must be matrices of one width";
    if (!is_i32(n->in[2], h->dim[0])) return "labels must be i32[N]";
    const op_attrs *attrs = &n->attrs;
    const int chunk = attrs->vocabulary.chunk, part = attrs->vocabulary.part;
    if (chunk < 1) return "chunk must be positive";
    const int64_t sums = sums_of_tokens(attrs), partial_sum = h->dim[0] / sums;
    if (h->dim[0] % sums) return "row_blocks and partial_sums must divide the tokens";
    if (attrs->sum.partial_sums > 1 && chunk >= partial_sum && chunk % partial_sum)
        return "a chunk must hold whole partial sums, or part of one";
    if (attrs->sum.partial_sums > 1 && chunk < partial_sum && !attrs->sum.apart)
        return "a partial sum of several chunks must be summed apart";
    const int64_t block = attrs->sum.blocks > 0 ? part / attrs->sum.blocks : 0;
    if (attrs->sum.blocks && (block < 1 || part % attrs->sum.blocks))
        return "part must be of reduction blocks";
    if (attrs->sum.blocks && (w->dim[0] > part || w->dim[0] <= (attrs->sum.blocks - 1) * block))
        return "every reduction block must have rows";
    return NULL;
}

static const char *shape(const node *n, tensor_spec *out) {
    out[0] = spec_1d(DT_F64, sums_of_tokens(&n->attrs));
    out[1] = spec_1d(DT_F64, n->in[0]->dim[0]);
    return check(n);
}

static double wire(const node *n) {
    const double pair = 2 * sizeof(double), blocks = n->attrs.sum.blocks ? n->attrs.sum.blocks : 1;
    if (n->attrs.mesh.ranks <= 1) return 0;
    return wire_gather(pair * blocks * (double)n->in[0]->dim[0], n->attrs.mesh.ranks);
}

static double flops(const node *n) {
    return 2.0 * (double)tensor_elements(n->in[0]) * (double)n->in[1]->dim[0];
}

static double inverse_dims(const node *n) {
    const tensor *x = n->in[0], *w = n->in[1];
    return 1 / (double)x->dim[0] + 1 / (double)x->dim[1] + 1 / (double)w->dim[0];
}

// The logits of a chunk serve the loss and both gradients, so the training graph has one op for all
// three, which is possible because the gradient of the loss is known beforehand. The gradient of
// each token's loss is not; in this case the logits are computed a second time.
static void grad_of_output(grad_ctx *ctx, node *n, int output) {
    tensor *in[5] = {n->in[0], n->in[1], n->in[2], grad_of(ctx, n->out[output])};
    tensor *acc = grad_buffer(ctx, n->in[1]);
    if (acc) in[4] = acc;
    const bool dx = grad_wanted(ctx, n->in[0]);
    op_attrs attrs = n->attrs;
    attrs.vocabulary.skip_dx = !dx;
    attrs.vocabulary.skip_dw = !acc;
    node *made = graph_add(ctx->g, OP_linear_cross_entropy_grad, acc ? 5 : 4, in, &attrs);
    if (output == 0) grad_replace(ctx, n->out[0], made->out[0]);
    if (dx) grad_add(ctx, n->in[0], made->out[1]);
    if (acc) grad_buffer_set(ctx, n->in[1], made->out[dx ? 2 : 1]);
}

static void grad(grad_ctx *ctx, node *n) {
    for (int output = 0; output < n->n_out; output++)
        if (grad_of(ctx, n->out[output])) grad_of_output(ctx, n, output);
}

// Two chunks, the second one shorter; one token that does not count.
static const int32_t example_labels[6] = {3, 0, -1, 10, 7, 3};

#define LOSS(...)                                                                                  \
    .in = {IN_ACTIVATION("h", 6, 5), IN_WEIGHT("w", 11, 5),                                        \
            IN_INTEGERS("labels", 6, example_labels)},                                             \
    .attrs = {__VA_ARGS__}
static const example_case examples[] = {{LOSS(.vocabulary.chunk = 4)},
        // Four reduction blocks, the last of them shorter.
        {LOSS(.vocabulary = {.chunk = 4, .part = 12}, .sum.blocks = 4)},
        // Two reduction blocks of a row, each a chunk and a shorter one.
        {LOSS(.vocabulary.chunk = 2, .sum.row_blocks = 2), .row_blocks = 2},
        // Three partial sums, two of them in the first chunk.
        {LOSS(.vocabulary.chunk = 4, .sum.partial_sums = 3)}, {0}};

const op_row op_row_linear_cross_entropy = {
        .n_in = 3,
        .shape = shape,
        .grad = grad,
        .reads_blocks = true,
        .flops = flops,
        .flops_of = FLOPS_HEAD,
        .inverse_dims = inverse_dims,
        .wire = wire,
        .built = true,
        .attrs = ATTRS(ATTR(vocabulary, part), ATTR(vocabulary, chunk), ATTR_RANKS,
                ATTR(sum, row_blocks), ATTR(sum, partial_sums), ATTR(sum, blocks),
                ATTR(sum, dx_wide), ATTR(sum, apart)),
        .examples = examples,
};

// --- linear_cross_entropy_grad(h, w, labels, dloss[, acc]) -> loss[, dh][, acc']
// dloss: for each sum of the loss, or for each token. skip_dx: there is no dh; skip_dw: there is no
// acc, since w is frozen.
static const char *grad_shape(const node *n, tensor_spec *out) {
    const tensor *w = n->in[1];
    const bool dx = !n->attrs.vocabulary.skip_dx, dw = !n->attrs.vocabulary.skip_dw;
    if (n->n_in != (dw ? 5 : 4)) return "acc and skip_dw exclude each other";
    out[0] = spec_1d(DT_F64, sums_of_tokens(&n->attrs));
    if (dx) out[1] = spec_like(n->in[0]);
    if (dx && n->attrs.sum.dx_wide) out[1].dt = dtype_acc(w->dt);
    if (dw) out[1 + dx] = spec_in_place(n, 4);
    const char *bad = check(n);
    if (bad) return bad;
    const tensor_spec acc =
            spec_by_block(&n->attrs, spec_2d(dtype_acc(w->dt), w->dim[0], w->dim[1]));
    if (!is_f64(n->in[3], sums_of_tokens(&n->attrs)) && !is_f64(n->in[3], n->in[0]->dim[0]))
        return "dloss must be like the loss, or of each token";
    return dw && !is_like(n->in[4], &acc) ? "the accumulator must fit w" : NULL;
}

// Counts the logits, and a product of the same size for each gradient.
static double grad_flops(const node *n) {
    return (3 - !!n->attrs.vocabulary.skip_dx - !!n->attrs.vocabulary.skip_dw) * flops(n);
}

#define GRAD_IN(n_dloss)                                                                           \
    IN_GIVEN("h", 6, 5), IN_GIVEN("w", 11, 5), IN_INTEGERS("labels", 6, example_labels),           \
            IN_STATE(TENSOR_INPUT, EXAMPLE_F64, 0.5, 1, "dloss", n_dloss)
// An accumulator of the whole; one for each of two reduction blocks of the row.
#define GRAD(n_dloss, ...) .in = {GRAD_IN(n_dloss), IN_SUMS("acc", 11, 5)}, .attrs = {__VA_ARGS__}
#define GRAD_2(n_dloss, ...)                                                                       \
    .in = {GRAD_IN(n_dloss), IN_SUMS("acc", 2, 11, 5)}, .attrs = {__VA_ARGS__}
static const example_case grad_examples[] = {{GRAD(1, .vocabulary.chunk = 4)},
        {.in = {GRAD_IN(1)}, .attrs.vocabulary = {.chunk = 4, .skip_dw = 1}},
        {GRAD(1, .vocabulary = {.chunk = 4, .skip_dx = 1})},
        {GRAD(1, .vocabulary = {.chunk = 4, .part = 12}, .sum.blocks = 4)},
        {GRAD(1, .vocabulary = {.chunk = 4, .part = 12}, .sum = {.blocks = 2, .dx_wide = 1})},
        {GRAD_2(2, .vocabulary.chunk = 2, .sum.row_blocks = 2)},
        {GRAD(1, .vocabulary.chunk = 4, .sum.apart = 1)},
        {GRAD_2(2, .vocabulary.chunk = 2, .sum = {.apart = 1, .row_blocks = 2})},
        // In a chunk two partial sums and one; then each in a chunk and a shorter one.
        {GRAD(3, .vocabulary.chunk = 4, .sum.partial_sums = 3)},
        {GRAD(2, .vocabulary.chunk = 2, .sum = {.partial_sums = 2, .apart = 1})},
        {GRAD_2(6, .vocabulary = {.chunk = 2, .part = 12},
                .sum = {.partial_sums = 3, .row_blocks = 2, .blocks = 4})},
        {GRAD(6, .vocabulary.chunk = 4)}, // dloss of each token
        {0}};

const op_row op_row_linear_cross_entropy_grad = {
        .n_in = 4,
        .max_in = 5,
        .shape = grad_shape,
        .reads_blocks = true,
        .flops = grad_flops,
        .flops_of = FLOPS_HEAD,
        .inverse_dims = inverse_dims,
        .wire = wire,
        .attrs = ATTRS(ATTR(vocabulary, part), ATTR(vocabulary, chunk), ATTR(vocabulary, skip_dx),
                ATTR(vocabulary, skip_dw), ATTR_RANKS, ATTR(sum, row_blocks),
                ATTR(sum, partial_sums), ATTR(sum, blocks), ATTR(sum, dx_wide), ATTR(sum, apart)),
        .examples = grad_examples,
};
