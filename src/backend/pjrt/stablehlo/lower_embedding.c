// Embedding and its gradient.
// Legend: T tokens, filled up to N = n B for blocks of B; H columns; id the row of a token.
#include "backend/pjrt/stablehlo/lower_collective.h"

// --- of a table that is split over ranks, rows of others are looked up in row 0 and replaced: by
// -0, to which adding the owner's changes no bit; gradients by 0
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

// --- sums of rows in one order. A compiler for GPUs that may not add in any order sorts every
// element of a scatter by itself, 33.5 million for a row of 8,192 tokens and 4,096 columns
// (bench/results/2026-11-29-device-text.md). Here tokens are sorted by id, products add those of a
// block that have one id, and no row of the table is added to twice.
enum { BLOCK = 128 };

// ids in ascending order, and the tokens that have them, also in ascending order.
static hlo_value sort_tokens(hlo_text *h, hlo_value ids, hlo_value *token) {
    const hlo_value numbers = hlo_iota(h, HLO_U64, 1, ids.dim, 0),
                    n = hlo_fill(h, (double)ids.dim[0], &numbers),
                    scaled = hlo_binary(h, "multiply", hlo_convert(h, ids, HLO_U64), n),
                    sorted = hlo_sort(h, hlo_binary(h, "add", scaled, numbers));
    *token = hlo_convert(h, hlo_binary(h, "remainder", sorted, n), HLO_I32);
    return hlo_convert(h, hlo_binary(h, "divide", sorted, n), HLO_I32);
}

// Finds where a vector has another element than in front of it.
static hlo_value begins(hlo_text *h, hlo_value x) {
    const hlo_value none = hlo_reshape(h, hlo_scalar(h, x.type, -1), HLO_DIMS(1)),
                    before[] = {none, hlo_slice(h, x, 0, 0, x.dim[0] - 1)};
    return hlo_compare(h, "NE", x, x.dim[0] > 1 ? hlo_concat(h, before, 2, 0) : none);
}

// 1 for each pair of elements of a row of x that are equal: [.., B] -> [.., B, B].
static hlo_value equal_pairs(hlo_text *h, hlo_value x, hlo_type type) {
    static const int64_t dims[2][2] = {{0, 1}, {0, 2}};
    const int64_t out[] = {x.dim[0], x.dim[1], x.dim[1]};
    return hlo_convert(h,
            hlo_compare(h, "EQ", hlo_broadcast(h, x, 3, out, dims[0]),
                    hlo_broadcast(h, x, 3, out, dims[1])),
            type);
}

// Adds a row where `counts`; no two of those have one id, and others have none of the table.
static hlo_value add_rows_once(hlo_text *h, hlo_value table, hlo_value counts, hlo_value ids,
        hlo_value rows) {
    const hlo_value number = hlo_iota(h, HLO_I32, 1, ids.dim, 0),
                    outside = hlo_binary(h, "add", number,
                            hlo_fill(h, (double)table.dim[0], &number));
    return hlo_scatter_add_rows(h, table, hlo_select(h, counts, ids, outside), rows, true);
}

// Adds what blocks have of an id that began in an earlier one, which is in their first rows: the
// first of these blocks adds the sum of all.
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

static hlo_value add_in_order(hlo_text *h, hlo_value table, hlo_value ids, hlo_value rows) {
    const int64_t n = (ids.dim[0] + BLOCK - 1) / BLOCK, columns = rows.dim[1];
    hlo_value token;
    ids = hlo_pad(h, ids, 0, n * BLOCK); // what fills up adds 0 to row 0
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
