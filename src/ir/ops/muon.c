// The ops of Muon's update (docs/optimizers.md), one after the other for a weight: momentum,
// orthogonalise, descend. Between these, ranks that share the weight or its state gather the whole;
// if each rank owns some matrices, they send the parts to the owner and get their share of the
// result back.
#include "ir/hyper.h"
#include "ir/muon_matrices.h"
#include "ir/op.h"
#include "ir/shard.h"

static const char *check_numbers(const tensor *norm2, const tensor *hyper) {
    if (!is_f64(norm2, 1)) return "norm2 must be one f64";
    return is_f64(hyper, N_HYPER) ? NULL : "hyper must be f64[N_HYPER]";
}

// momentum(m, g, norm2, hyper) -> m', g' = 0, u. As torch.optim.Muon has it, with Nesterov's step,
// after clipping by global norm as in adamw (ops/update.c):
//   m = b m + (1 - b) g;  u = (1 - b) g + b m, rounded to `to`
// g may be bf16. When norm2 is not finite, only the gradient is cleared, and u is 0.
static const char *momentum_shape(const node *n, tensor_spec *out) {
    const tensor *m = n->in[0], *g = n->in[1];
    out[0] = spec_in_place(n, 0);
    out[1] = spec_in_place(n, 1);
    out[2] = spec_like(m);
    out[2].dt = n->attrs.update.to;
    if (!same_shape(m, g)) return "m and g must have one shape";
    if (g->dt != m->dt && g->dt != DT_BF16) return "g must be bf16 or as m";
    if (dtype_acc(n->attrs.update.to) != m->dt) return "m must be of the sums of the result's type";
    return check_numbers(n->in[2], n->in[3]);
}

static void make_momentum(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    attrs.update.to = e->dt;
    graph_add(e->g, OP_momentum, n_in, in, &attrs);
}

#define MOMENTUM_OF(gradient)                                                                      \
    {                                                                                              \
        .in = {IN_STATE(TENSOR_OPTIMIZER, EXAMPLE_SUMS, -0.1, 0.1, "m", 3, 17),                    \
                IN_STATE(TENSOR_GRAD, gradient, -1, 1, "g", 3, 17), IN_NORM2, IN_HYPER},           \
        .attrs.update.beta1 = 0.95, .make = make_momentum                                          \
    }
static const example_case momentum_examples[] = {MOMENTUM_OF(EXAMPLE_SUMS),
        MOMENTUM_OF(EXAMPLE_KEPT), {0}};

const op_row op_row_momentum = {
        .n_in = 4,
        .shape = momentum_shape,
        .built = true,
        .attrs = ATTRS(ATTR(update, to), ATTR(update, beta1)),
        .examples = momentum_examples,
};

// orthogonalise(u[, v, norm2]) -> o[, v']: approximates, for each matrix U in u, the nearest matrix
// whose singular values are equal, scaled to the size of AdamW's steps (arXiv:2502.16982, equation
// 4):
//   X = U / max(|U|, eps);  ns_steps times  A = X X^T,  X = 3.4445 X + (-4.775 A + 2.0315 A A) X
//   o = 0.2 sqrt(max(rows, columns)) X
// with the numbers of ir/newton_schulz.h. (A = X^T X and X A where there are more rows than
// columns, which is the same.) X, A and the polynomial in A are rounded to u's type, in which
// products take them; sums and o are not. This rank's part of the weight is [rows, columns]: up to
// three matrices, one below the other, the later ones from second_row and third_row on
// (ir/muon_matrices.h). u holds the parts of all tensor ranks as runs of equal length, of which the
// first rows x columns elements count; `dim` is the dimension along which the weight is divided. o
// is this rank's part of the result.
static const char *check_matrices(const node *n) {
    const op_attrs *attrs = &n->attrs;
    const int second = attrs->update.second_row, third = attrs->update.third_row,
              rows = attrs->update.rows;
    if (rows < 1 || attrs->update.columns < 1) return "it must have rows and columns";
    if (attrs->mesh.dim < 0 || attrs->mesh.dim > 1) return "a matrix has no such dim";
    if (second < 0 || second >= rows) return "no such second_row";
    if (third && (third <= second || !second || third >= rows)) return "no such third_row";
    return attrs->update.ns_steps >= 1 ? NULL : "ns_steps must be positive";
}

static const char *check_row_squares(const node *n) {
    const tensor *u = n->in[0];
    const int64_t rows =
            (int64_t)n->attrs.update.rows * (n->attrs.mesh.dim == 0 ? n->attrs.mesh.ranks : 1);
    if (n->n_in == 2) return "v and norm2 go together";
    if ((n->n_in == 3) != (n->attrs.update.beta2 > 0)) return "v and beta2 go together";
    if (n->n_in < 3) return NULL;
    if (!is_acc(n->in[1], u->dt, rows)) return "v must be a sum for each row of all ranks";
    return is_f64(n->in[2], 1) ? NULL : "norm2 must be one f64";
}

static const char *orthogonalise_shape(const node *n, tensor_spec *out) {
    const tensor *u = n->in[0];
    const int ranks = n->attrs.mesh.ranks;
    const int64_t rows = n->attrs.update.rows, columns = n->attrs.update.columns;
    out[0] = spec_2d(dtype_acc(u->dt), rows, columns);
    if (n->n_in == 3) out[1] = spec_in_place(n, 1);
    if (u->dt == DT_I32) return "u must be real";
    if (ranks < 1 || tensor_elements(u) % ranks) return "ranks must divide the elements of u";
    if (tensor_elements(u) / ranks < rows * columns) return "u must have the elements of all ranks";
    const char *bad = check_matrices(n);
    return bad ? bad : check_row_squares(n);
}

// Counts the products of a step (A, A A, and the polynomial times X) of whole matrices, whatever
// the number of ranks.
static double orthogonalise_flops(const node *n) {
    muon_matrix list[MAX_MATRICES];
    const int n_matrices = muon_matrices(n, list);
    double flops = 0;
    for (int k = 0; k < n_matrices; k++) {
        const double rows = (double)list[k].R, columns = (double)list[k].C,
                     less = (double)list[k].M;
        flops += 2 * less * less * (2 * (rows + columns - less) + less) * n->attrs.update.ns_steps;
    }
    return flops;
}

#define ORTHOGONALISE(ROWS, COLUMNS, ...)                                                          \
    .attrs.update = {.rows = ROWS, .columns = COLUMNS, .eps = 1e-7, __VA_ARGS__},                  \
    .attrs.mesh.axis = AXIS_TENSOR, .attrs.mesh.ranks = 1
static const example_case orthogonalise_examples[] = {{.in = {IN_GIVEN("u", 3, 17)},
                                                              ORTHOGONALISE(3, 17, .ns_steps = 2)},
        {.in = {IN_GIVEN("u", 17, 4)}, ORTHOGONALISE(17, 4, .ns_steps = 5), .attrs.mesh.dim = 1},
        {.in = {IN_GIVEN("u", 12, 5)},
                ORTHOGONALISE(12, 5, .ns_steps = 1, .second_row = 7, .third_row = 10)},
        // NorMuon
        {.in = {IN_GIVEN("u", 9, 5), IN_STATE(TENSOR_OPTIMIZER, EXAMPLE_SUMS, 0.01, 0.1, "v", 9),
                 IN_NORM2},
                ORTHOGONALISE(9, 5, .ns_steps = 1, .second_row = 4, .beta2 = 0.95)},
        {0}};

const op_row op_row_orthogonalise = {
        .n_in = 1,
        .max_in = 3,
        .shape = orthogonalise_shape,
        .flops = orthogonalise_flops,
        .built = true,
        .attrs = ATTRS(ATTR(update, rows), ATTR(update, columns), ATTR(update, ns_steps),
                ATTR(update, second_row), ATTR(update, third_row), ATTR(update, eps),
                ATTR(update, beta2), ATTR_RANKS, ATTR(mesh, dim)),
        .examples = orthogonalise_examples,
};

static const char *check_owner(const node *n) {
    const mesh_use *use = &n->attrs.mesh;
    const char *bad = check_ranks(&n->attrs);
    if (bad) return bad;
    return use->owner < 0 || use->owner >= use->ranks ? "no rank is the owner" : NULL;
}

// to_owner(u[n]) -> U: on the owner the shards of all ranks, [ranks n]; on the others one element,
// which nobody reads.
static const char *to_owner_shape(const node *n, tensor_spec *out) {
    const tensor *u = n->in[0];
    out[0] = spec_1d(u->dt, n->attrs.mesh.owns ? n->attrs.mesh.ranks * tensor_elements(u) : 1);
    if (u->dt == DT_I32) return "u must be real";
    return check_owner(n);
}

static double to_owner_wire(const node *n) {
    return n->attrs.mesh.owns || n->attrs.mesh.ranks == 1 ? 0 : (double)tensor_bytes(n->in[0]);
}

#define OWNER .mesh = {.axis = AXIS_DATA, .ranks = 1, .owns = 1}
static const example_case to_owner_examples[] = {{.in = {IN_GIVEN("u", 51)}, .attrs = {OWNER}},
        {0}};

const op_row op_row_to_owner = {
        .n_in = 1,
        .shape = to_owner_shape,
        .wire = to_owner_wire,
        .collective = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, owner), ATTR(mesh, owns)),
        .examples = to_owner_examples,
};

// from_owner(o) -> s: this rank's shard of o, which only the owner has; on other ranks the value of
// o does not matter.
static const char *from_owner_shape(const node *n, tensor_spec *out) {
    const tensor *o = n->in[0];
    const tensor_spec whole = spec_whole(&n->attrs);
    const char *bad = check_owner(n);
    out[0] = spec_1d(whole.dt, 1);
    if (!bad) bad = check_whole(&n->attrs);
    if (bad) return bad;
    out[0].dim[0] = shard_length(whole_elements(&n->attrs), n->attrs.mesh.ranks);
    return n->attrs.mesh.owns && !is_like(o, &whole) ? "o must be whole" : NULL;
}

static double from_owner_wire(const node *n) {
    const mesh_use *use = &n->attrs.mesh;
    const int64_t all = whole_elements(&n->attrs),
                  others = all - shard_count(all, use->ranks, use->owner);
    return use->owns ? (double)(others * dtype_bytes(n->out[0]->dt)) : 0;
}

static void make_from_owner(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    attrs.whole = whole_of(in[0], in[0]->dt);
    graph_add(e->g, OP_from_owner, n_in, in, &attrs);
}

#define IN_DIRECTION IN_STATE(TENSOR_INPUT, EXAMPLE_SUMS, -1, 1, "o", 3, 17)
static const example_case from_owner_examples[] = {{.in = {IN_DIRECTION},
                                                           .attrs = {OWNER},
                                                           .make = make_from_owner},
        {0}};

const op_row op_row_from_owner = {
        .n_in = 1,
        .shape = from_owner_shape,
        .wire = from_owner_wire,
        .collective = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, owner), ATTR(mesh, owns), ATTR_WHOLE),
        .examples = from_owner_examples,
};

// descend(p, o, norm2, hyper[, w]) -> p'[, w' = p' in the compute type]: p -= lr (o + weight_decay
// p), rounded once. Nothing happens where norm2 is not finite.
static const char *descend_shape(const node *n, tensor_spec *out) {
    out[0] = spec_in_place(n, 0);
    if (!same_type(n->in[0], n->in[1])) return "p and o must have one type and shape";
    if (n->n_in == 5) {
        out[1] = spec_in_place(n, 4);
        if (!same_shape(n->in[4], n->in[0])) return "the compute copy must fit p";
    }
    return check_numbers(n->in[2], n->in[3]);
}

#define IN_MASTER IN_STATE(TENSOR_OPTIMIZER, EXAMPLE_SUMS, -1, 1, "p", 3, 17)
static const example_case descend_examples[] = {{.in = {IN_MASTER, IN_DIRECTION, IN_NORM2,
                                                         IN_HYPER},
                                                        .attrs.update.weight_decay = 0.1},
        {.in = {IN_MASTER, IN_DIRECTION, IN_NORM2, IN_HYPER, IN_COPY},
                .attrs.update.weight_decay = 0.1},
        {0}};

const op_row op_row_descend = {
        .n_in = 4,
        .max_in = 5,
        .shape = descend_shape,
        .built = true,
        .attrs = ATTRS(ATTR(update, weight_decay)),
        .examples = descend_examples,
};
