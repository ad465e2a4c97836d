// The second half of a low-rank branch (LoRA, arXiv:2106.09685, equation 3): several projections of
// one input are one matrix, and some of its column ranges have a branch (docs/adr/0008).
//
//   lora_up(y_NO, t_NR, B1, ...) -> y':   y'[:, c_i .. c_i + O_i] = y + alpha_i t_i B_i^T
//
//          column1            column2
//   y  |   [+ t_1 B_1^T]  . . [+ t_2 B_2^T]  |      t = [t_1 | t_2], r_i columns each
//                                                   B_i [O_i, r_i]
//
// The first half, t = x A^T for all branches at once, is a matmul.
//
// dx_blocks, dx_wide: dt is a sum over the columns of y. dx_blocks is the number of equal reduction
// blocks into which the columns of each branch are divided; dt is a partial sum (dx_wide) if ranks
// share these columns. dw_blocks, dw_ranks: as in matmul.c, for the gradients of the B.
#include "ir/grad.h"

// Returns the columns of t, the sum of the ranks of all branches, whose B are in[first ..].
static int64_t width_of_t(const node *n, int first) {
    int64_t width = 0;
    for (int i = first; i < n->n_in; i++)
        width += n->in[i]->dim[1];
    return width;
}

// `y_NO` has the columns of the branches.
static const char *check(const node *n, const tensor *y, int first) {
    int64_t end = 0;
    const int blocks = first == 1 ? n->attrs.sum.blocks : n->attrs.sum.dx_blocks;
    if (blocks < 0) return "reduction blocks must not be negative";
    for (int i = 0; i < n->n_in - first; i++) {
        const tensor *b = n->in[first + i];
        const int column = n->attrs.low_rank.branches[i].column;
        if (blocks && b->dim[0] % blocks)
            return "reduction blocks must divide the columns of a branch";
        if (!is_matrix(b) || b->dt != y->dt) return "B must be [columns of its branch, rank]";
        if (column < end) return "branches must not overlap";
        end = column + b->dim[0];
    }
    return end > y->dim[1] ? "a branch ends beyond y" : NULL;
}

static const char *shape(const node *n, tensor_spec *out) {
    const tensor *y = n->in[0], *t = n->in[1];
    out[0] = spec_may_alias(n, 0);
    if (!is_matrix(y) || !is_matrix(t) || t->dt != y->dt || t->dim[0] != y->dim[0])
        return "y and t must be matrices of one height";
    const char *bad = check(n, y, 2);
    return bad || width_of_t(n, 2) == t->dim[1] ? bad : "t must be as wide as all ranks";
}

// 2 N O_i r for each branch.
static double branch_flops(const node *n, int first, int64_t tokens) {
    double sum = 0;
    for (int i = first; i < n->n_in; i++)
        sum += 2.0 * (double)tokens * (double)tensor_elements(n->in[i]);
    return sum;
}

static double flops(const node *n) {
    return branch_flops(n, 2, n->in[0]->dim[0]);
}

// Adds to the accumulator of branch i, whose columns of t begin at `from`.
static void grad_b(grad_ctx *ctx, const node *up, int i, int from) {
    tensor *b = up->in[2 + i], *in[] = {grad_of(ctx, up->out[0]), up->in[1], grad_buffer(ctx, b)};
    const op_attrs attrs = grad_tokens(ctx, up,
            (op_attrs){.low_rank.branches[0].alpha = up->attrs.low_rank.branches[i].alpha,
                    .low_rank.branches[0].column = up->attrs.low_rank.branches[i].column,
                    .low_rank.from = from});
    if (in[2]) grad_buffer_set(ctx, b, graph_add(ctx->g, OP_lora_up_grad_b, 3, in, &attrs)->out[0]);
}

static void grad(grad_ctx *ctx, node *up) {
    tensor *dy = grad_of(ctx, up->out[0]), *in[1 + MAX_BRANCHES] = {dy};
    int from = 0;
    grad_add(ctx, up->in[0], dy);
    for (int i = 0; i < up->n_in - 2; i++) {
        grad_b(ctx, up, i, from);
        in[1 + i] = up->in[2 + i];
        from += (int)up->in[2 + i]->dim[1];
    }
    if (!grad_wanted(ctx, up->in[1])) return;
    op_attrs attrs = up->attrs;
    attrs.sum.blocks = attrs.sum.dx_blocks;
    attrs.sum.wide = attrs.sum.dx_wide;
    attrs.sum.dx_blocks = attrs.sum.dx_wide = attrs.sum.dw_blocks = attrs.sum.dw_ranks =
            attrs.mesh.axis = 0;
    grad_add(ctx, up->in[1], graph_add(ctx->g, OP_lora_up_grad, up->n_in - 1, in, &attrs)->out[0]);
}

// Branches of the first and the last columns, none between, of different ranks; and one in the
// middle.
#define TWO_BRANCHES .low_rank.branches = {{.alpha = 0.7}, {.alpha = 1.25, .column = 7}}
#define IN_TWO(tokens)                                                                             \
    {                                                                                              \
        IN_ACTIVATION("y", tokens, 13), IN_ACTIVATION("t", tokens, 5), IN_WEIGHT("b1", 4, 2),      \
                IN_WEIGHT("b2", 6, 3)                                                              \
    }
static const example_case examples[] = {{.in = IN_TWO(5), .attrs = {TWO_BRANCHES}},
        {.in = {IN_ACTIVATION("y", 1, 9), IN_ACTIVATION("t", 1, 2), IN_WEIGHT("b1", 5, 2)},
                .attrs.low_rank.branches = {{.alpha = 2, .column = 3}}},
        // dt in two reduction blocks of each branch, the gradients of B in three runs of tokens.
        {.in = IN_TWO(5), .attrs = {TWO_BRANCHES, .sum = {.dx_blocks = 2, .dw_blocks = 3}}},
        {.in = IN_TWO(8), .attrs = {TWO_BRANCHES, .sum.dw_blocks = 2}, .row_blocks = 2},
        // Two reduction blocks of the row, each of two partial sums.
        {.in = IN_TWO(8),
                .attrs = {TWO_BRANCHES, .sum.dw_blocks = 2},
                .row_blocks = 2,
                .partial_sums = 2},
        {0}};

const op_row op_row_lora_up = {
        .n_in = 3,
        .max_in = 2 + MAX_BRANCHES,
        .shape = shape,
        .attrs = ATTRS(ATTR(mesh, axis), ATTR(sum, dx_blocks), ATTR(sum, dw_blocks),
                ATTR(sum, dw_ranks), ATTR(sum, dx_wide), ATTR_BRANCH(1), ATTR_BRANCH(2),
                ATTR_BRANCH(3)),
        .grad = grad,
        .flops = flops,
        .built = true,
        .examples = examples,
};

// --- lora_up_grad(dy_NO, B1, ...) -> dt_NR: dt_i = alpha_i dy[:, c_i .. c_i + O_i] B_i, summed in
// `blocks`; `wide`: a partial sum
static const char *grad_shape(const node *n, tensor_spec *out) {
    const tensor *dy = n->in[0];
    if (!is_matrix(dy)) return "dy must be a matrix";
    out[0] = spec_2d(n->attrs.sum.wide ? dtype_acc(dy->dt) : dy->dt, dy->dim[0], width_of_t(n, 1));
    return check(n, dy, 1);
}

static double grad_flops(const node *n) {
    return branch_flops(n, 1, n->in[0]->dim[0]);
}

#define IN_TWO_GIVEN                                                                               \
    { IN_GIVEN("dy", 5, 13), IN_GIVEN("b1", 4, 2), IN_GIVEN("b2", 6, 3) }
static const example_case grad_examples[] = {{.in = IN_TWO_GIVEN, .attrs = {TWO_BRANCHES}},
        {.in = IN_TWO_GIVEN, .attrs = {TWO_BRANCHES, .sum = {.blocks = 2, .wide = 1}}}, {0}};

const op_row op_row_lora_up_grad = {
        .n_in = 2,
        .max_in = 1 + MAX_BRANCHES,
        .shape = grad_shape,
        .attrs = ATTRS(ATTR(sum, blocks), ATTR(sum, wide), ATTR_BRANCH(1), ATTR_BRANCH(2),
                ATTR_BRANCH(3)),
        .flops = grad_flops,
        .examples = grad_examples,
};

// --- lora_up_grad_b(dy_NO, t_NR, acc_i) -> acc_i + alpha1 dy[:, column1 .. + O_i]^T t_i; t_i
// begins at column `from` of t; summed over tokens in `blocks`, which `ranks` join, and in
// `partial_sums`
static const char *grad_b_shape(const node *n, tensor_spec *out) {
    const tensor *dy = n->in[0], *t = n->in[1], *acc = n->in[2];
    const int first = row_blocks_of(&n->attrs) > 1; // dim of an accumulator
    out[0] = spec_in_place(n, 2);
    if (!is_matrix(dy) || !is_matrix(t) || t->dt != dy->dt || t->dim[0] != dy->dim[0])
        return "dy and t must be matrices of one height";
    const tensor_spec want = spec_by_block(&n->attrs,
            spec_2d(dtype_acc(dy->dt), acc->dim[first], acc->dim[first + 1]));
    if (!is_like(acc, &want))
        return "the accumulator must be a matrix, or one for each reduction block of the row";
    if (n->attrs.low_rank.branches[0].column + acc->dim[first] > dy->dim[1])
        return "the branch ends beyond dy";
    if (n->attrs.low_rank.from + acc->dim[first + 1] > t->dim[1]) return "the branch ends beyond t";
    return check_tokens(&n->attrs, dy->dim[0]);
}

static double grad_b_flops(const node *n) {
    return branch_flops(n, 2, n->in[0]->dim[0]) / row_blocks_of(&n->attrs);
}

static double grad_b_wire(const node *n) {
    return wire_of_tokens(&n->attrs, n->in[2]);
}

#define GRAD_B(tokens, ...)                                                                        \
    {                                                                                              \
        .in = {IN_GIVEN("dy", tokens, 13), IN_GIVEN("t", tokens, 5), IN_SUMS("acc", 6, 3)},        \
        .attrs =                                                                                   \
        {.low_rank = {.branches = {{.alpha = 0.7, .column = 7}}, .from = 2},                       \
            .sum = {__VA_ARGS__} }                                                                 \
    }
static const example_case grad_b_examples[] = {GRAD_B(5, 0), GRAD_B(5, .blocks = 2),
        GRAD_B(6, .blocks = 2, .partial_sums = 2), {0}};

const op_row op_row_lora_up_grad_b = {
        .n_in = 3,
        .shape = grad_b_shape,
        .attrs = ATTRS(ATTR(low_rank, from), ATTR_RANKS, ATTR(sum, row_blocks),
                ATTR(sum, partial_sums), ATTR(sum, blocks), ATTR_BRANCH(1)),
        .flops = grad_b_flops,
        .wire = grad_b_wire,
        .examples = grad_b_examples,
};
