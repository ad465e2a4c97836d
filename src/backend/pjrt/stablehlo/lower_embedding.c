// Prints the embedding and its gradient.
// Legend: n blocks of B tokens each, the last one padded; H columns; id: the row of a token.
#include "backend/pjrt/stablehlo/lower_collective.h"
#include "base/round.h"

// --- If the table is split over ranks, rows of other ranks are read from row 0 and replaced: by
// -0, since adding the owner's row to it changes no bit; gradients by 0.
static hlo_value or_else(lowering *l, hlo_value is_here, hlo_value rows, double otherwise) {
    const hlo_value like = {.type = HLO_BOOL, .n_dims = 2, .dim = {rows.dim[0], rows.dim[1]}};
    return hlo_select(&l->h, hlo_along(&l->h, is_here, &like, 0), rows,
            hlo_fill(&l->h, otherwise, &rows));
}

static hlo_value inside(lowering *l, hlo_value is_here, hlo_value ids) {
    return hlo_select(&l->h, is_here, ids, hlo_fill(&l->h, 0, &ids));
}

static void embedding(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    hlo_value ids = lower_in(l, n, 0), is_here, table = lower_in(l, n, 1);
    if (n->attrs.mesh.ranks <= 1) {
        lower_set(l, n, 0, hlo_gather_rows(h, table, ids));
        return;
    }
    ids = lower_rows_here(l, n, ids, table.dim[0], &is_here);
    const hlo_value rows = hlo_gather_rows(h, table, inside(l, is_here, ids));
    lower_set(l, n, 0, or_else(l, is_here, rows, -0.0));
}

// --- sums of rows in one order. If XLA must be deterministic on a GPU, it sorts the elements of a
// scatter one by one: 33.5 million for a row of 8,192 tokens and 4,096 columns
// (bench/results/2026-11-29-device-text.md). So the tokens are sorted by id here, a matrix product
// adds the rows of a block that have the same id, and each scatter adds at most once to a row of
// the table.
enum { BLOCK = 128 };

// Returns the ids in ascending order, and the token of each; tokens of one id are in order, too.
static hlo_value sort_tokens(hlo_text *h, hlo_value ids, hlo_value *token) {
    const hlo_value numbers = hlo_iota(h, HLO_U64, 1, ids.dim, 0),
                    n = hlo_fill(h, (double)ids.dim[0], &numbers),
                    scaled = hlo_binary(h, "multiply", hlo_convert(h, ids, HLO_U64), n),
                    sorted = hlo_sort(h, hlo_binary(h, "add", scaled, numbers));
    *token = hlo_convert(h, hlo_binary(h, "remainder", sorted, n), HLO_I32);
    return hlo_convert(h, hlo_binary(h, "divide", sorted, n), HLO_I32);
}

// Returns where an element of a vector differs from the one before it; true for the first.
static hlo_value begins(hlo_text *h, hlo_value x) {
    const hlo_value none = hlo_reshape(h, hlo_scalar(h, x.type, -1), HLO_DIMS(1)),
                    before[] = {none, hlo_slice(h, x, 0, 0, x.dim[0] - 1)};
    return hlo_compare(h, "NE", x, x.dim[0] > 1 ? hlo_concat(h, before, 2, 0) : none);
}

// Returns 1 for each pair of equal elements of a row of x, else 0: [n, B] -> [n, B, B].
static hlo_value equal_pairs(hlo_text *h, hlo_value x, hlo_type type) {
    static const int64_t dims[2][2] = {{0, 1}, {0, 2}};
    const int64_t out[] = {x.dim[0], x.dim[1], x.dim[1]};
    return hlo_convert(h,
            hlo_compare(h, "EQ", hlo_broadcast(h, x, 3, out, dims[0]),
                    hlo_broadcast(h, x, 3, out, dims[1])),
            type);
}

// Adds the rows for which `counts` is true, whose ids all differ. The other rows get ids outside of
// the table, and a scatter leaves them out.
static hlo_value add_rows_once(hlo_text *h, hlo_value table, hlo_value counts, hlo_value ids,
        hlo_value rows) {
    const hlo_value number = hlo_iota(h, HLO_I32, 1, ids.dim, 0),
                    outside = hlo_binary(h, "add", number,
                            hlo_fill(h, (double)table.dim[0], &number));
    return hlo_scatter_add_rows(h, table, hlo_select(h, counts, ids, outside), rows, true);
}

// An id may continue from the block before. Its sum over a block is then in the block's first row.
// Adds these sums of all blocks together, by the first of the blocks that continue the id.
static hlo_value add_continued(hlo_text *h, hlo_value table, hlo_value id_nB, hlo_value begins_nB,
        hlo_value sums_nBH) {
    const int64_t n = id_nB.dim[0], columns = sums_nBH.dim[2];
    const hlo_value id = hlo_reshape(h, hlo_slice(h, id_nB, 1, 0, 1), HLO_DIMS(n)),
                    fresh = hlo_reshape(h, hlo_slice(h, begins_nB, 1, 0, 1), HLO_DIMS(n)),
                    sums = hlo_reshape(h, hlo_slice(h, sums_nBH, 1, 0, 1), HLO_DIMS(n, columns));
    const hlo_value continued = hlo_select(h, fresh, hlo_fill(h, -1, &id), id),
                    pairs = equal_pairs(h, hlo_reshape(h, continued, HLO_DIMS(1, n)), sums.type),
                    total = hlo_dot(h, hlo_reshape(h, pairs, HLO_DIMS(n, n)), sums, 1, 0,
                            sums.type),
                    first = hlo_binary(h, "and", hlo_unary(h, "not", fresh), begins(h, continued));
    return add_rows_once(h, table, first, id, total);
}

// A product adds all rows of a block, those of other ids times 0. So a row with a NaN or an
// infinity makes the sums of its whole block NaN; the norm of the gradients is not finite then, and
// the update is skipped.
static hlo_value add_in_order(hlo_text *h, hlo_value table, hlo_value ids, hlo_value rows) {
    const int64_t n = div_up(ids.dim[0], BLOCK), columns = rows.dim[1];
    hlo_value token;
    ids = hlo_pad(h, ids, 0, n * BLOCK); // padding adds 0 to row 0
    rows = hlo_pad(h, rows, 0, n * BLOCK);
    const hlo_value id = sort_tokens(h, ids, &token), fresh = begins(h, id),
                    id_nB = hlo_reshape(h, id, HLO_DIMS(n, BLOCK)),
                    sorted = hlo_reshape(h, hlo_gather_rows(h, rows, token),
                            HLO_DIMS(n, BLOCK, columns)),
                    sums = hlo_dot(h, equal_pairs(h, id_nB, rows.type), sorted, 1, 0, table.type);
    table = add_rows_once(h, table, fresh, id, hlo_reshape(h, sums, HLO_DIMS(n * BLOCK, columns)));
    if (n == 1) return table;
    return add_continued(h, table, id_nB, hlo_reshape(h, fresh, HLO_DIMS(n, BLOCK)), sums);
}

static void embedding_grad(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value acc = lower_in(l, n, 2);
    hlo_value ids = lower_in(l, n, 0), added = lower_in(l, n, 1), is_here;
    if (n->attrs.mesh.ranks > 1) {
        ids = lower_rows_here(l, n, ids, acc.dim[0], &is_here);
        ids = inside(l, is_here, ids);
        added = or_else(l, is_here, added, 0);
    }
    lower_set(l, n, 0,
            l->options.adds_in_order
                    ? add_in_order(h, acc, ids, added)
                    : hlo_scatter_add_rows(h, acc, ids, hlo_convert(h, added, acc.type), false));
}

const lower_op lower_op_embedding = {.lower = embedding, .vocabulary = 2};
const lower_op lower_op_embedding_grad = {.lower = embedding_grad};
