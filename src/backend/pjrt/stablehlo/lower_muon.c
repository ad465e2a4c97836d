// Prints Muon's update (ir/ops/muon.c). Legend: as in backend/cpu/run_muon.c.
#include <math.h>

#include "backend/pjrt/stablehlo/lower_adamw.h"
#include "backend/pjrt/stablehlo/lower_collective.h"
#include "ir/muon_matrices.h"
#include "ir/newton_schulz.h"

// --- momentum(m, g, norm2, hyper)
static void momentum(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const double decay = n->attrs.update.beta1;
    const step_numbers s = lower_numbers(l, n, 2);
    const hlo_value m = lower_in(l, n, 0), g = lower_in(l, n, 1),
                    x = hlo_scale(h,
                            hlo_binary(h, "multiply", lower_in_acc(l, n, 1, 0),
                                    hlo_spread(h, s.grad_scale, &m)),
                            1 - decay);
    const hlo_value new_m = hlo_binary(h, "add", hlo_scale(h, m, decay), x),
                    u = hlo_binary(h, "add", hlo_scale(h, new_m, decay), x);
    const hlo_value finite = lower_truths(h, s.finite, &m);
    lower_set(l, n, 0, hlo_select(h, finite, new_m, m));
    lower_set(l, n, 1, lower_sum_cleared(h, &s, g));
    lower_round(l, n, 2, hlo_select(h, finite, u, hlo_spread(h, s.zero, &u)));
}

const lower_op lower_op_momentum = {.lower = momentum};

// --- orthogonalise(u)
// Returns rows [begin, begin + rows) of the weight from all ranks.
static hlo_value whole_matrix(lowering *l, const node *n, int64_t begin, int64_t rows) {
    hlo_text *h = &l->h;
    const int64_t dim[] = {n->attrs.update.rows, n->attrs.update.columns};
    const int ranks = n->attrs.mesh.ranks;
    const hlo_value u = lower_in(l, n, 0);
    const int64_t elements = hlo_elements(&u), here = dim[0] * dim[1];
    const hlo_value flat = hlo_reshape(h, u, HLO_DIMS(elements));
    hlo_value *parts = ARENA_ARRAY(l->g->a, hlo_value, ranks);
    for (int i = 0; i < ranks; i++) {
        const hlo_value part = hlo_slice(h, flat, 0, i * (elements / ranks), here);
        parts[i] = hlo_slice(h, hlo_reshape(h, part, HLO_DIMS(dim[0], dim[1])), 0, begin, rows);
    }
    return ranks == 1 ? parts[0] : hlo_concat(h, parts, ranks, n->attrs.mesh.dim);
}

static hlo_value multiply_add(hlo_text *h, double factor, hlo_value x, hlo_value added) {
    const hlo_value sum =
            hlo_binary(h, "add", hlo_scale(h, hlo_convert(h, x, added.type), factor), added);
    return hlo_convert(h, sum, x.type);
}

// Prints a step of Newton-Schulz; ctx is the type of sums.
static void ns_step(hlo_text *h, void *ctx, hlo_index iteration DRV_UNUSED, hlo_value *carried) {
    const hlo_type acc = *(const hlo_type *)ctx;
    const hlo_value x = carried[0];
    const int wide = x.dim[0] <= x.dim[1];
    const hlo_value a = hlo_dot(h, x, x, wide, wide, x.type),
                    aa = hlo_scale(h, hlo_dot(h, a, a, 1, 0, acc), NS_C),
                    b = multiply_add(h, NS_B, a, aa);
    carried[0] = multiply_add(h, NS_A, x,
            wide ? hlo_dot(h, b, x, 1, 0, acc) : hlo_dot(h, x, b, 1, 0, acc));
}

static hlo_value newton_schulz(lowering *l, const node *n, hlo_value x) {
    hlo_text *h = &l->h;
    hlo_type acc = lower_acc(l, n->in[0]);
    const hlo_value wide = hlo_convert(h, x, acc),
                    squares = hlo_reduce_all(h, "add", hlo_binary(h, "multiply", wide, wide)),
                    root = hlo_convert(h, hlo_unary(h, "sqrt", squares), x.type),
                    norm = hlo_binary(h, "maximum", hlo_convert(h, root, acc),
                            hlo_fill(h, n->attrs.update.eps, &squares));
    hlo_value made =
            hlo_convert(h, hlo_binary(h, "divide", wide, hlo_spread(h, norm, &wide)), x.type);
    hlo_repeat(h, n->attrs.update.ns_steps, &made, 1, ns_step, &acc);
    return made;
}

// Scales the matrix to the size of a step.
static hlo_value scaled_matrix(hlo_text *h, hlo_value x) {
    return hlo_scale(h, x, MUON_RMS * sqrt((double)(x.dim[0] > x.dim[1] ? x.dim[0] : x.dim[1])));
}

// NorMuon: divides rows by their mean squares *v, which it updates.
static hlo_value normalised_matrix(hlo_text *h, hlo_value x, double beta2, hlo_value *v) {
    const hlo_value squares = hlo_binary(h, "multiply", x, x),
                    means = hlo_scale(h, hlo_reduce(h, "add", squares, 1, (int64_t[]){1}),
                            1 / (double)x.dim[1]);
    *v = hlo_binary(h, "add", hlo_scale(h, *v, beta2), hlo_scale(h, means, 1 - beta2));
    const hlo_value below =
            hlo_binary(h, "add", hlo_unary(h, "sqrt", *v), hlo_fill(h, NORMUON_EPS, v));
    const hlo_value y = hlo_binary(h, "divide", x, hlo_along(h, below, &x, 0)),
                    norm = hlo_unary(h, "sqrt",
                            hlo_reduce_all(h, "add", hlo_binary(h, "multiply", y, y)));
    const hlo_value above = hlo_fill(h, MUON_RMS * sqrt((double)hlo_elements(&x)), &norm),
                    none = hlo_compare(h, "EQ", norm, hlo_fill(h, 0, &norm)),
                    factor = hlo_select(h, none, norm, hlo_binary(h, "divide", above, norm));
    return hlo_binary(h, "multiply", y, hlo_spread(h, factor, &y));
}

// Returns this rank's part of a matrix.
static hlo_value part_here(lowering *l, const node *n, hlo_value o) {
    if (n->attrs.mesh.ranks == 1) return o;
    const int64_t here = o.dim[n->attrs.mesh.dim] / n->attrs.mesh.ranks;
    const hlo_index place = {.moves = true, .value = lower_place(l, AXIS_TENSOR)};
    return hlo_take(&l->h, o, n->attrs.mesh.dim, hlo_index_times(&l->h, place, here), here);
}

static void keep_means(lowering *l, const node *n, const hlo_value *v, int n_v) {
    hlo_text *h = &l->h;
    const hlo_value old = lower_in(l, n, 1), norm2 = hlo_element(h, lower_in(l, n, 2), 0),
                    like = {.type = HLO_BOOL, .n_dims = 1, .dim = {old.dim[0]}},
                    finite = hlo_compare(h, "LT", norm2, hlo_fill(h, __builtin_inf(), &norm2)),
                    new = n_v == 1 ? v[0] : hlo_concat(h, v, n_v, 0);
    lower_set(l, n, 1, hlo_select(h, hlo_spread(h, finite, &like), new, old));
}

static void orthogonalise(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const int64_t ranks = n->attrs.mesh.dim == 0 ? n->attrs.mesh.ranks : 1; // that divide rows
    muon_matrix list[MAX_MATRICES];
    const int n_matrices = muon_matrices(n, list);
    hlo_value made[MAX_MATRICES] = {{0}}, v[MAX_MATRICES] = {{0}};
    for (int k = 0; k < n_matrices; k++) {
        const hlo_value u = whole_matrix(l, n, list[k].row, list[k].rows),
                        x = hlo_convert(h, newton_schulz(l, n, u), lower_acc(l, n->in[0]));
        if (n->n_in > 1) v[k] = hlo_slice(h, lower_in(l, n, 1), 0, ranks * list[k].row, x.dim[0]);
        made[k] = part_here(l, n,
                n->n_in > 1 ? normalised_matrix(h, x, n->attrs.update.beta2, &v[k])
                            : scaled_matrix(h, x));
    }
    lower_set(l, n, 0, n_matrices == 1 ? made[0] : hlo_concat(h, made, n_matrices, 0));
    if (n->n_in > 1) keep_means(l, n, v, n_matrices);
}

const lower_op lower_op_orthogonalise = {.lower = orthogonalise};

// --- descend(p, o, norm2, hyper[, w])
static void descend(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const step_numbers s = lower_numbers(l, n, 2);
    const hlo_value p = lower_in(l, n, 0),
                    taken = hlo_binary(h, "add", lower_in(l, n, 1),
                            hlo_scale(h, p, n->attrs.update.weight_decay)),
                    new_p = hlo_binary(h, "subtract", p,
                            hlo_binary(h, "multiply", hlo_spread(h, s.lr, &p), taken));
    const hlo_value kept = hlo_select(h, lower_truths(h, s.finite, &p), new_p, p);
    lower_updated(l, n, kept);
    if (n->n_in == 5) lower_round(l, n, 1, kept);
}

const lower_op lower_op_descend = {.lower = descend};

// These have no rules: devices run one program, so no rank owns a matrix alone.
const lower_op lower_op_to_owner = {.lower = NULL};
const lower_op lower_op_from_owner = {.lower = NULL};
