// x_NH = table_VH[ids_N], and its gradient, a scatter-add in token order. With `ranks`, the table
// holds this rank's rows of a table of V rows: `part` of them, fewer on the last rank. A rank
// returns -0 for rows of others, so that adding the owner's row changes no bit.
#include "ir/grad.h"
#include "ir/token_sums.h"

static const char *check_part(const node *n, int64_t rows) {
    return n->attrs.mesh.ranks > 1 && n->attrs.vocabulary.part < rows
                   ? "a split table needs its part"
                   : NULL;
}

static const char *shape(const node *n, tensor_spec *out) {
    const tensor *ids = n->in[0], *table = n->in[1];
    if (!is_i32(ids, ids->dim[0])) return "ids must be i32[N]";
    if (!is_matrix(table)) return "the table must be a matrix";
    out[0] = spec_2d(table->dt, ids->dim[0], table->dim[1]);
    return check_part(n, table->dim[0]);
}

static void grad(grad_ctx *ctx, node *n) {
    tensor *acc = grad_buffer(ctx, n->in[1]), *dx = grad_of(ctx, n->out[0]);
    if (!acc) return;
    tensor *in[] = {n->in[0], dx, acc};
    op_attrs attrs = n->attrs;
    attrs.sum.row_blocks = grad_row_blocks(ctx);
    attrs.sum.partial_sums = grad_partial_sums(ctx);
    grad_buffer_set(ctx, n->in[1], graph_add(ctx->g, OP_embedding_grad, 3, in, &attrs)->out[0]);
}

// Counts the rows that are looked up, not the whole table.
static double touched(const node *n) {
    return (double)(tensor_bytes(n->in[0]) + 2 * tensor_bytes(n->out[0]));
}

// With the first and the last row, and one that comes twice.
static const int32_t example_ids[6] = {0, 5, 3, 6, 5, 2};

#define IN_LOOKUP                                                                                  \
    { IN_INTEGERS("ids", 6, example_ids), IN_WEIGHT("table", 7, 5) }
static const example_case examples[] = {{.in = IN_LOOKUP}, {.in = IN_LOOKUP, .row_blocks = 2},
        {.in = IN_LOOKUP, .row_blocks = 2, .partial_sums = 3}, {0}};

const op_row op_row_embedding = {
        .n_in = 2,
        .shape = shape,
        .grad = grad,
        .touched = touched,
        .reads_blocks = true,
        .attrs = ATTRS(ATTR(vocabulary, part), ATTR_RANKS),
        .built = true,
        .examples = examples,
};

// dtable_VH += sum over tokens of dx_NH at row ids[n]. `row_blocks`: the number of reduction blocks
// of the row in N, each with a table of its own. `partial_sums`: the number of partial sums in each
// block, each summed on its own first.
static const char *grad_shape(const node *n, tensor_spec *out) {
    const tensor *ids = n->in[0], *dx = n->in[1], *acc = n->in[2];
    if (!is_matrix(dx) || !is_i32(ids, dx->dim[0])) return "ids must be i32[N] for dx[N,H]";
    const int64_t rows = acc->dim[n->attrs.sum.row_blocks > 1];
    const tensor_spec table =
            spec_by_block(&n->attrs, spec_2d(dtype_acc(dx->dt), rows, dx->dim[1]));
    if (!is_like(acc, &table)) return "the accumulator must be [V,H]";
    if (dx->dim[0] % sums_of_tokens(&n->attrs))
        return "row_blocks and partial_sums must divide the tokens";
    out[0] = spec_in_place(n, 2);
    return check_part(n, rows);
}

// Counts each row of dx and the row of the table to which it is added.
static double grad_touched(const node *n) {
    const double numbers = (double)tensor_elements(n->in[1]);
    return (double)(tensor_bytes(n->in[0]) + tensor_bytes(n->in[1])) +
           2 * numbers * (double)dtype_bytes(n->in[2]->dt);
}

// Row 5 has two tokens, of two partial sums; in the second one also two.
static const int32_t partial_sums_ids[6] = {0, 5, 3, 5, 5, 2};

static const example_case grad_examples[] = {{.in = {IN_INTEGERS("ids", 6, example_ids),
                                                      IN_GIVEN("dx", 6, 5), IN_SUMS("acc", 7, 5)}},
        {.in = {IN_INTEGERS("ids", 6, example_ids), IN_GIVEN("dx", 6, 5), IN_SUMS("acc", 2, 7, 5)},
                .attrs.sum.row_blocks = 2},
        {.in = {IN_INTEGERS("ids", 6, partial_sums_ids), IN_GIVEN("dx", 6, 5),
                 IN_SUMS("acc", 7, 5)},
                .attrs.sum.partial_sums = 2},
        {0}};

const op_row op_row_embedding_grad = {
        .n_in = 3,
        .shape = grad_shape,
        .touched = grad_touched,
        .attrs = ATTRS(ATTR(vocabulary, part), ATTR_RANKS, ATTR(sum, row_blocks),
                ATTR(sum, partial_sums)),
        .examples = grad_examples,
};
