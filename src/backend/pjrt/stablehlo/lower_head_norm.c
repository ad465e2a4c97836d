// Prints norms of the heads of queries and keys (ir/ops/head_norm.c).
// Legend: N tokens; H heads of queries, or of keys; D head_dim; x in the accumulation type; r the
// factors of heads, [N, H].
#include "backend/pjrt/stablehlo/lower_collective.h"

typedef struct heads { // of queries or of keys
    int64_t first, n;
} heads;

static heads heads_of(const node *n, bool keys) {
    return keys ? (heads){n->attrs.heads.n_heads, n->attrs.heads.n_kv_heads}
                : (heads){0, n->attrs.heads.n_heads};
}

// [N, C] -> [N, H, D]
static hlo_value take(lowering *l, const node *n, hlo_value x, heads of) {
    const int64_t d = n->attrs.heads.head_dim;
    return hlo_reshape(&l->h, hlo_slice(&l->h, x, 1, of.first * d, of.n * d),
            HLO_DIMS(x.dim[0], of.n, d));
}

static hlo_value flat(lowering *l, hlo_value x_NHD) {
    return hlo_reshape(&l->h, x_NHD, HLO_DIMS(x_NHD.dim[0], x_NHD.dim[1] * x_NHD.dim[2]));
}

// Returns the columns of values, unchanged.
static hlo_value values_of(lowering *l, const node *n, hlo_value x) {
    const int64_t first =
            (int64_t)(n->attrs.heads.n_heads + n->attrs.heads.n_kv_heads) * n->attrs.heads.head_dim;
    return hlo_slice(&l->h, x, 1, first, x.dim[1] - first);
}

static hlo_value head_mean(lowering *l, hlo_value x_NHD) {
    const hlo_value sum = hlo_reduce(&l->h, "add", x_NHD, 1, (int64_t[]){2});
    return hlo_scale(&l->h, sum, 1 / (double)x_NHD.dim[2]);
}

static hlo_value by_head(lowering *l, hlo_value r_NH, const hlo_value *like) {
    return hlo_broadcast(&l->h, r_NH, like->n_dims, like->dim, (const int64_t[]){0, 1});
}

static void head_norm(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value all = lower_in_acc(l, n, 0, 0);
    hlo_value y[3], r[2];
    for (int keys = 0; keys < 2; keys++) {
        const hlo_value x = take(l, n, all, heads_of(n, keys)),
                        w = hlo_along(h, lower_in(l, n, 1 + keys), &x, 2);
        const hlo_value mean = head_mean(l, hlo_binary(h, "multiply", x, x));
        r[keys] = hlo_unary(h, "rsqrt",
                hlo_binary(h, "add", mean, hlo_fill(h, n->attrs.norm.eps, &mean)));
        const hlo_value scaled = hlo_binary(h, "multiply", x, by_head(l, r[keys], &x));
        y[keys] = flat(l, hlo_binary(h, "multiply", scaled, w));
    }
    y[2] = values_of(l, n, all);
    lower_round(l, n, 0, hlo_concat(h, y, 3, 1));
    lower_set(l, n, 1, hlo_concat(h, r, 2, 1));
}

// Adds the sums over all heads to acc. A key head that several ranks have counts once.
static void add_gradient(lowering *l, const node *n, int keys, hlo_value given_NHD) {
    hlo_text *h = &l->h;
    const int replicas = keys && n->attrs.mesh.replicas > 1 ? n->attrs.mesh.replicas : 1;
    hlo_value dw = hlo_reduce(h, "add", given_NHD, 2, (int64_t[]){0, 1});
    if (n->attrs.mesh.ranks > 1) dw = lower_sum_along(l, dw, 1u << n->attrs.mesh.axis);
    if (replicas > 1) dw = hlo_scale(h, dw, 1.0 / replicas);
    lower_set(l, n, 1 + keys, hlo_binary(h, "add", lower_in(l, n, 5 + keys), dw));
}

// inputs: dy, x, wq, wk, r[, accq, acck]
static void head_norm_grad(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value all_dy = lower_in_acc(l, n, 0, 1), all_x = lower_in_acc(l, n, 1, 1),
                    all_r = lower_in(l, n, 4);
    hlo_value d[3];
    for (int keys = 0; keys < 2; keys++) {
        const heads of = heads_of(n, keys);
        const hlo_value dy = take(l, n, all_dy, of), x = take(l, n, all_x, of);
        const hlo_value r = by_head(l, hlo_slice(h, all_r, 1, of.first, of.n), &x),
                        w = hlo_along(h, lower_in(l, n, 2 + keys), &x, 2);
        const hlo_value normed = hlo_binary(h, "multiply", x, r),
                        g = hlo_binary(h, "multiply", dy, w);
        const hlo_value mean = head_mean(l, hlo_binary(h, "multiply", g, normed));
        const hlo_value past = hlo_binary(h, "multiply", normed, by_head(l, mean, &x));
        d[keys] = flat(l, hlo_binary(h, "multiply", hlo_binary(h, "subtract", g, past), r));
        if (!n->attrs.norm.skip_dw) add_gradient(l, n, keys, hlo_binary(h, "multiply", dy, normed));
    }
    d[2] = values_of(l, n, all_dy);
    lower_round(l, n, 0, hlo_concat(h, d, 3, 1));
}

const lower_op lower_op_head_norm = {.lower = head_norm};
const lower_op lower_op_head_norm_grad = {.lower = head_norm_grad};
