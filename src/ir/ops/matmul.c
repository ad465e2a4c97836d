// c_MN = op(a) op(b), sums in the accumulation type. With a third input the product is added to it
// in place (weight gradients). A linear layer is x_NK W_OK^T: tb = 1. matmul_add adds to an
// activation and rounds once.
//
// `blocks`: the number of equal reduction blocks into which the sum over the inner dimension is
// split; a tree adds them. segment2 (and segment3) are the K indices at which the second (and
// third) segment starts; a reduction block has a part of each segment, as a head has columns in q,
// k and v. `wide`: the result is a partial sum in the accumulation type, which ranks add.
// dx_blocks, dx_wide and the segments of a linear layer apply to its dx.
//
// A weight's gradient is a sum over tokens. dw_blocks: the number of runs of tokens, of nearly
// equal length, that a tree adds; dw_ranks: the ranks along the axis that have other tokens, whose
// sums are added first. (The product itself has `blocks` and `ranks`.) `row_blocks`: the reduction
// blocks of the row, each with an accumulator of its own: acc[row_blocks, M, N]. `partial_sums`:
// the partial sums of each block, whose products are added one after the other.
//
// `fp8`: a and b are rounded to fp8 first (attributes.h), each with a scale that the ranks along
// fp8_axes find together. The gradient passes through the rounding
// as if it were not there; its own products are FP8_GRADIENT where the product is FP8_FORWARD.
#include "ir/grad.h"

static const char *check_blocks(const op_attrs *attrs, int blocks, int64_t k) {
    const int64_t ends[] = {attrs->sum.segment2, attrs->sum.segment3, k};
    int64_t begin = 0;
    if (blocks < 0) return "reduction blocks must not be negative";
    for (int i = 0; i < 3; i++) {
        if (!ends[i]) continue;
        if (ends[i] <= begin) return "segments must follow each other within the inner dimension";
        if (blocks && (ends[i] - begin) % blocks)
            return "reduction blocks must divide every segment";
        begin = ends[i];
    }
    return NULL;
}

static const char *check_fp8(const node *n) {
    const int use = n->attrs.matmul.fp8;
    if (use < FP8_NONE || use > FP8_GRADIENT) return "fp8 is no fp8_use";
    return use && n->in[1]->blocks ? "fp8 products have no weights in blocks" : NULL;
}

static const char *shape(const node *n, tensor_spec *out) {
    const tensor *a = n->in[0], *b = n->in[1];
    const matmul_attrs *by = &n->attrs.matmul;
    if (!is_matrix(a) || !is_matrix(b) || a->dt != b->dt)
        return "a and b must be matrices of one type";
    const int64_t m = a->dim[by->ta], k = a->dim[!by->ta], cols = b->dim[!by->tb];
    if (k != b->dim[by->tb]) return "inner dims differ";
    if (check_fp8(n)) return check_fp8(n);
    out[0] = spec_2d(n->attrs.sum.wide ? dtype_acc(a->dt) : a->dt, m, cols);
    const bool for_dx = n->attrs.sum.dx_blocks > 0;
    const bool of_tokens = n->attrs.sum.row_blocks > 1 || n->attrs.sum.partial_sums > 1;
    if (of_tokens && (n->n_in < 3 || !by->ta || by->tb))
        return "row_blocks and partial_sums are of weight gradients";
    const int blocks = for_dx ? n->attrs.sum.dx_blocks : n->attrs.sum.blocks;
    if (n->n_in < 3) return check_blocks(&n->attrs, blocks, for_dx ? cols : k);
    const tensor_spec acc = spec_by_block(&n->attrs, spec_2d(dtype_acc(a->dt), m, cols));
    out[0] = spec_in_place(n, 2);
    if (!is_like(n->in[2], &acc)) return "the accumulator does not fit the product";
    return check_tokens(&n->attrs, k);
}

static double flops(const node *n) {
    const tensor *a = n->in[0];
    const double all = (double)tensor_elements(n->out[0]) * (double)a->dim[!n->attrs.matmul.ta];
    return 2 * all / row_blocks_of(&n->attrs);
}

static double inverse_dims(const node *n) {
    const tensor *a = n->in[0], *out = n->out[0];
    return 1 / (double)out->dim[out->n_dims - 2] + 1 / (double)out->dim[out->n_dims - 1] +
           1 / (double)a->dim[!n->attrs.matmul.ta];
}

// Both operands are read for their largest number, and again to round them.
static double rounded(const node *n) {
    double bytes = 0;
    for (int i = 0; i < 2 && n->attrs.matmul.fp8; i++)
        bytes += 2 * (double)tensor_bytes(n->in[i]) + (double)tensor_elements(n->in[i]);
    return bytes;
}

static matmul_attrs attrs_of_gradient(const node *n, int ta) {
    return (matmul_attrs){.ta = ta,
            .fp8 = n->attrs.matmul.fp8 ? FP8_GRADIENT : FP8_NONE,
            .fp8_axes = n->attrs.matmul.fp8_axes};
}

static void grad(grad_ctx *ctx, node *n) {
    tensor *a = n->in[0], *b = n->in[1], *dy = grad_of(ctx, n->out[0]);
    DRV_ASSERT(!n->attrs.matmul.ta && n->attrs.matmul.tb, "only x W^T is differentiated");
    tensor *in_b[] = {dy, a, grad_buffer(ctx, b)};
    const op_attrs tokens = grad_tokens(ctx, n, (op_attrs){.matmul = attrs_of_gradient(n, 1)});
    if (in_b[2]) grad_buffer_set(ctx, b, graph_add(ctx->g, OP_matmul, 3, in_b, &tokens)->out[0]);
    if (!grad_wanted(ctx, a)) return;
    op_attrs attrs = {.matmul = attrs_of_gradient(n, 0),
            .sum.blocks = n->attrs.sum.dx_blocks,
            .sum.segment2 = n->attrs.sum.segment2,
            .sum.segment3 = n->attrs.sum.segment3};
    tensor *in_a[] = {dy, b, grad_of(ctx, a)};
    if (in_a[2]) { // what other readers of a gave so far
        DRV_ASSERT(!n->attrs.sum.dx_wide, "a partial sum joins no other gradient");
        grad_put(ctx, a, graph_add(ctx->g, OP_matmul_add, 3, in_a, &attrs)->out[0]);
        return;
    }
    attrs.sum.wide = n->attrs.sum.dx_wide;
    grad_add(ctx, a, graph_add(ctx->g, OP_matmul, 2, in_a, &attrs)->out[0]);
}

// A product sends nothing unless it is added to a gradient, which ranks sum (all_reduce sums other
// products).
static double grad_wire(const node *n) {
    return n->n_in < 3 ? 0 : wire_of_tokens(&n->attrs, n->in[2]);
}

#define IN_LINEAR(tokens)                                                                          \
    { IN_ACTIVATION("x", tokens, 7), IN_WEIGHT("w", 3, 7) }
#define IN_GRADIENT(tokens) IN_GIVEN("dy", tokens, 3), IN_GIVEN("x", tokens, 7)
static const example_case examples[] = {{.in = IN_LINEAR(5), .attrs.matmul.tb = 1},
        // A single row has a path of its own on the CPU: generation.
        {.in = {IN_ACTIVATION("x", 1, 37), IN_WEIGHT("w", 70, 37)}, .attrs.matmul.tb = 1},
        {.in = {IN_GIVEN("dy", 5, 3), IN_GIVEN("w", 3, 7)}},
        {.in = {IN_GRADIENT(5), IN_SUMS("acc", 3, 7)}, .attrs.matmul.ta = 1},
        // Two reduction blocks of q, k and v: 4, 2 and 2 columns each.
        {.in = {IN_GIVEN("dy", 5, 16), IN_GIVEN("w", 16, 7)},
                .attrs.sum = {.blocks = 2, .segment2 = 8, .segment3 = 12}},
        {.in = {IN_ACTIVATION("x", 5, 12), IN_WEIGHT("w", 7, 12)},
                .attrs = {.matmul.tb = 1, .sum = {.blocks = 4, .wide = 1}}},
        {.in = {IN_GRADIENT(10), IN_SUMS("acc", 2, 3, 7)},
                .attrs = {.matmul.ta = 1, .sum.row_blocks = 2}},
        {.in = IN_LINEAR(8), .attrs.matmul.tb = 1, .row_blocks = 2},
        // The weight's gradient is a sum of three runs of 5 tokens: 1, 2 and 2 of them.
        {.in = IN_LINEAR(5), .attrs = {.matmul.tb = 1, .sum.dw_blocks = 3}},
        // More runs than tokens.
        {.in = {IN_GRADIENT(5), IN_SUMS("acc", 3, 7)}, .attrs = {.matmul.ta = 1, .sum.blocks = 8}},
        {.in = {IN_GRADIENT(12), IN_SUMS("acc", 3, 7)},
                .attrs = {.matmul.ta = 1, .sum = {.partial_sums = 4, .blocks = 2}}},
        // Two reduction blocks of the row, each of two partial sums.
        {.in = IN_LINEAR(8), .attrs.matmul.tb = 1, .row_blocks = 2, .partial_sums = 2},
        {.in = {IN_GIVEN("x", 5, 7), IN_GIVEN("w", 3, 7)},
                .attrs.matmul = {.tb = 1, .fp8 = FP8_FORWARD}},
        {.in = {IN_GRADIENT(5), IN_SUMS("acc", 3, 7)},
                .attrs.matmul = {.ta = 1, .fp8 = FP8_GRADIENT}},
        {0}};

const op_row op_row_matmul = {
        .n_in = 2,
        .max_in = 3,
        .shape = shape,
        .grad = grad,
        .reads_blocks = true,
        .flops = flops,
        .inverse_dims = inverse_dims,
        .rounded = rounded,
        .wire = grad_wire,
        .built = true,
        .attrs = ATTRS(ATTR(matmul, ta), ATTR(matmul, tb), ATTR(matmul, fp8),
                ATTR(matmul, fp8_axes), ATTR_RANKS, ATTR(sum, row_blocks), ATTR(sum, partial_sums),
                ATTR(sum, blocks), ATTR(sum, dx_blocks), ATTR(sum, dw_blocks), ATTR(sum, dw_ranks),
                ATTR(sum, wide), ATTR(sum, dx_wide), ATTR(sum, segment2), ATTR(sum, segment3)),
        .examples = examples,
};

// --- matmul_add(a, b, c_MN) -> c + op(a) op(b), all of one type
static const char *add_shape(const node *n, tensor_spec *out) {
    const tensor *a = n->in[0], *b = n->in[1], *c = n->in[2];
    out[0] = spec_may_alias(n, 2);
    if (!is_matrix(a) || !is_matrix(b) || !is_matrix(c) || a->dt != b->dt || a->dt != c->dt)
        return "a, b and c must be matrices of one type";
    if (a->dim[!n->attrs.matmul.ta] != b->dim[n->attrs.matmul.tb]) return "inner dims differ";
    const char *bad = check_fp8(n);
    if (bad) return bad;
    bad = check_blocks(&n->attrs, n->attrs.sum.blocks, a->dim[!n->attrs.matmul.ta]);
    if (bad) return bad;
    if (c->dim[0] != a->dim[n->attrs.matmul.ta] || c->dim[1] != b->dim[!n->attrs.matmul.tb])
        return "c does not fit the product";
    return NULL;
}

#define IN_ADDED(k)                                                                                \
    { IN_GIVEN("dy", 5, k), IN_GIVEN("w", k, 7), IN_GIVEN("c", 5, 7) }
static const example_case add_examples[] = {{.in = IN_ADDED(3)},
        {.in = IN_ADDED(12), .attrs.sum.blocks = 3},
        {.in = IN_ADDED(3), .attrs.matmul.fp8 = FP8_GRADIENT}, {0}};

const op_row op_row_matmul_add = {
        .n_in = 3,
        .shape = add_shape,
        .reads_blocks = true,
        .flops = flops,
        .inverse_dims = inverse_dims,
        .rounded = rounded,
        .attrs =
                ATTRS(ATTR(matmul, ta), ATTR(matmul, tb), ATTR(matmul, fp8), ATTR(matmul, fp8_axes),
                        ATTR(sum, blocks), ATTR(sum, segment2), ATTR(sum, segment3)),
        .examples = add_examples,
};
