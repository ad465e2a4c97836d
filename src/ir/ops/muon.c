// The ops of Muon's update (docs/optimizers.md), one after the other for a weight: momentum,
// orthogonalise, descend. Between them ranks that share the weight or its state gather the whole,
// or, where each has matrices of its own, send it to its owner and take what comes back.
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
static const char *momentum_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *m = n->in[0], *g = n->in[1];
    *n_out = 3;
    out[0] = spec_in_place(n, 0);
    out[1] = spec_in_place(n, 1);
    out[2] = spec_like(m);
    out[2].dt = n->attrs.update.to;
    if (!same_shape(m, g)) return "m and g must have one shape";
    if (g->dt != m->dt && g->dt != DT_BF16) return "g must be bf16 or as m";
    if (dtype_acc(n->attrs.update.to) != m->dt) return "m must be of the sums of the result's type";
    return check_numbers(n->in[2], n->in[3]);
}

static void momentum_example(example *e) {
    const dtype acc = dtype_acc(e->dt);
    tensor *in[] = {example_state(e, TENSOR_OPTIMIZER, "m", acc, 3, 17, -0.1, 0.1),
            example_state(e, TENSOR_GRAD, "g", acc, 3, 17, -1, 1),
            example_state(e, TENSOR_INPUT, "norm2", DT_F64, 1, 0, 1, 4),
            example_state(e, TENSOR_INPUT, "hyper", DT_F64, N_HYPER, 0, 0.1, 0.5)};
    graph_add(e->g, OP_momentum, 4, in, &(op_attrs){.update.to = e->dt, .update.beta1 = 0.95});
}

static void bf16_gradient_example(example *e) {
    const dtype acc = dtype_acc(e->dt);
    tensor *in[] = {example_state(e, TENSOR_OPTIMIZER, "m", acc, 3, 17, -0.1, 0.1),
            example_state(e, TENSOR_GRAD, "g", acc == DT_F64 ? acc : DT_BF16, 3, 17, -1, 1),
            example_state(e, TENSOR_INPUT, "norm2", DT_F64, 1, 0, 1, 4),
            example_state(e, TENSOR_INPUT, "hyper", DT_F64, N_HYPER, 0, 0.1, 0.5)};
    graph_add(e->g, OP_momentum, 4, in, &(op_attrs){.update.to = e->dt, .update.beta1 = 0.95});
}

const op_row op_row_momentum = {
        .name = "momentum",
        .min_in = 4,
        .max_in = 4,
        .shape = momentum_shape,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR(update, to), ATTR(update, beta1)),
        .examples = {momentum_example, bf16_gradient_example},
};

// orthogonalise(u[, v, norm2]) -> o[, v']: of each matrix U that u holds, about the nearest
// matrix whose singular values are equal, as large as AdamW's steps are (arXiv:2502.16982, equation
// 4):
//   X = U / max(|U|, eps);  ns_steps times  A = X X^T,  X = 3.4445 X + (-4.775 A + 2.0315 A A) X
//   o = 0.2 sqrt(max(rows, columns)) X
// with the numbers of ir/newton_schulz.h. (A = X^T X and X A where there are more rows than
// columns, which is the same.) X, A and the polynomial in A are rounded to u's type, in which
// products take them; sums and o are not. This rank's part of the weight is [rows, columns]: up to
// three matrices, one below the other, the later ones from second_row and third_row on
// (ir/muon_matrices.h). u holds the parts of all tensor ranks, each as an equal run of elements, of
// which the first rows x columns count; `dim` says how they are cut. o is this rank's part of the
// result.
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

static const char *orthogonalise_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *u = n->in[0];
    const int ranks = n->attrs.mesh.ranks;
    const int64_t rows = n->attrs.update.rows, columns = n->attrs.update.columns;
    *n_out = n->n_in == 3 ? 2 : 1;
    out[0] = spec_2d(dtype_acc(u->dt), rows, columns);
    if (n->n_in == 3) out[1] = spec_in_place(n, 1);
    if (u->dt == DT_I32) return "u must be real";
    if (ranks < 1 || tensor_elements(u) % ranks) return "ranks must divide the elements of u";
    if (tensor_elements(u) / ranks < rows * columns) return "u must have the elements of all ranks";
    const char *bad = check_matrices(n);
    return bad ? bad : check_row_squares(n);
}

// Products of a step: A, A A, and that of both with X. Of the whole matrices, whatever the ranks.
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

static void orthogonalise_of(example *e, int64_t rows, int64_t columns, op_attrs attrs) {
    const dtype acc = dtype_acc(e->dt);
    tensor *in[3] = {example_given(e, "u", rows, columns)};
    if (attrs.update.beta2 > 0) {
        in[1] = example_state(e, TENSOR_OPTIMIZER, "v", acc, rows, 0, 0.01, 0.1);
        in[2] = example_state(e, TENSOR_INPUT, "norm2", DT_F64, 1, 0, 1, 4);
    }
    attrs.update.rows = (int)rows;
    attrs.update.columns = (int)columns;
    attrs.mesh.axis = AXIS_TENSOR;
    attrs.mesh.ranks = 1;
    attrs.update.eps = 1e-7;
    graph_add(e->g, OP_orthogonalise, attrs.update.beta2 > 0 ? 3 : 1, in, &attrs);
}

static void wide_example(example *e) {
    orthogonalise_of(e, 3, 17, (op_attrs){.update.ns_steps = 2});
}

static void tall_example(example *e) {
    orthogonalise_of(e, 17, 4, (op_attrs){.update.ns_steps = 5, .mesh.dim = 1});
}

static void parts_example(example *e) {
    orthogonalise_of(e, 12, 5,
            (op_attrs){.update.ns_steps = 1, .update.second_row = 7, .update.third_row = 10});
}

static void normuon_example(example *e) {
    orthogonalise_of(e, 9, 5,
            (op_attrs){.update.ns_steps = 1, .update.second_row = 4, .update.beta2 = 0.95});
}

const op_row op_row_orthogonalise = {
        .name = "orthogonalise",
        .min_in = 1,
        .max_in = 3,
        .shape = orthogonalise_shape,
        .flops = orthogonalise_flops,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR(update, rows), ATTR(update, columns), ATTR(update, ns_steps),
                ATTR(update, second_row), ATTR(update, third_row), ATTR(update, eps),
                ATTR(update, beta2), ATTR_RANKS, ATTR(mesh, dim)),
        .examples = {wide_example, tall_example, parts_example, normuon_example},
};

static const char *check_owner(const node *n) {
    const mesh_use *use = &n->attrs.mesh;
    if (use->ranks < 1) return "ranks must be positive";
    if (use->axis < 0 || use->axis >= N_AXES) return "the mesh has no such axis";
    return use->owner < 0 || use->owner >= use->ranks ? "no rank is the owner" : NULL;
}

// to_owner(u[n]) -> U: of the owner the shards of all ranks, [ranks n]; of the others one element,
// which nobody reads.
static const char *to_owner_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *u = n->in[0];
    *n_out = 1;
    out[0] = spec_1d(u->dt, n->attrs.mesh.owns ? n->attrs.mesh.ranks * tensor_elements(u) : 1);
    if (u->dt == DT_I32) return "u must be real";
    return check_owner(n);
}

static double to_owner_wire(const node *n) {
    return n->attrs.mesh.owns || n->attrs.mesh.ranks == 1 ? 0 : (double)tensor_bytes(n->in[0]);
}

static void to_owner_example(example *e) {
    tensor *u = example_given(e, "u", 51, 0);
    graph_add(e->g, OP_to_owner, 1, &u,
            &(op_attrs){.mesh.axis = AXIS_DATA, .mesh.ranks = 1, .mesh.owns = 1});
}

const op_row op_row_to_owner = {
        .name = "to_owner",
        .min_in = 1,
        .max_in = 1,
        .shape = to_owner_shape,
        .wire = to_owner_wire,
        .collective = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, owner), ATTR(mesh, owns)),
        .examples = {to_owner_example},
};

// from_owner(o) -> s: this rank's shard of o, which the owner has whole; o of the others is
// anything.
static const char *from_owner_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *o = n->in[0];
    const tensor_spec whole = spec_whole(&n->attrs);
    const char *bad = check_owner(n);
    *n_out = 1;
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

static void from_owner_example(example *e) {
    tensor *o = example_state(e, TENSOR_INPUT, "o", dtype_acc(e->dt), 3, 17, -1, 1);
    graph_add(e->g, OP_from_owner, 1, &o,
            &(op_attrs){.mesh.axis = AXIS_DATA,
                    .mesh.ranks = 1,
                    .mesh.owns = 1,
                    .whole = whole_of(o, o->dt)});
}

const op_row op_row_from_owner = {
        .name = "from_owner",
        .min_in = 1,
        .max_in = 1,
        .shape = from_owner_shape,
        .wire = from_owner_wire,
        .collective = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, owner), ATTR(mesh, owns), ATTR_WHOLE),
        .examples = {from_owner_example},
};

// descend(p, o, norm2, hyper[, w]) -> p'[, w' = p' in the compute type]: p -= lr (o + weight_decay
// p), rounded once. Nothing happens where norm2 is not finite.
static const char *descend_shape(const node *n, tensor_spec *out, int *n_out) {
    *n_out = 1;
    out[0] = spec_in_place(n, 0);
    if (!same_type(n->in[0], n->in[1])) return "p and o must have one type and shape";
    if (n->n_in == 5) {
        out[(*n_out)++] = spec_in_place(n, 4);
        if (!same_shape(n->in[4], n->in[0])) return "the compute copy must fit p";
    }
    return check_numbers(n->in[2], n->in[3]);
}

static void descend_of(example *e, bool copy) {
    const dtype acc = dtype_acc(e->dt);
    tensor *in[5] = {example_state(e, TENSOR_OPTIMIZER, "p", acc, 3, 17, -1, 1),
            example_state(e, TENSOR_INPUT, "o", acc, 3, 17, -1, 1),
            example_state(e, TENSOR_INPUT, "norm2", DT_F64, 1, 0, 1, 4),
            example_state(e, TENSOR_INPUT, "hyper", DT_F64, N_HYPER, 0, 0.1, 0.5)};
    if (copy) in[4] = example_state(e, TENSOR_WEIGHT, "w", DT_BF16, 3, 17, -1, 1);
    graph_add(e->g, OP_descend, copy ? 5 : 4, in, &(op_attrs){.update.weight_decay = 0.1});
}

static void descend_example(example *e) {
    descend_of(e, false);
}

static void descend_copy_example(example *e) {
    descend_of(e, true);
}

const op_row op_row_descend = {
        .name = "descend",
        .min_in = 4,
        .max_in = 5,
        .shape = descend_shape,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR(update, weight_decay)),
        .examples = {descend_example, descend_copy_example},
};
