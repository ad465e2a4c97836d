// The ops of the update program.
#include "ir/hyper.h"
#include "ir/op.h"
#include "ir/wire.h"

// sum_squares(t1, t2, ...) -> f64[1]: the sum over all elements of all inputs, and over the ranks
// along `axes`. Of the first n_alike inputs, which tensor ranks hold alike, those of the first one
// count. Squares are added without rounding, so it does not matter which rank has which of them.
static const char *squares_shape(const node *n, tensor_spec *out) {
    out[0] = spec_1d(DT_F64, 1);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->dt == DT_I32) return "inputs must be real";
    return NULL;
}

// Along one axis: the exact sum travels as it is.
static double squares_wire(const node *n) {
    return wire_all_reduce(WIRE_EXACT_BYTES, n->attrs.mesh.ranks);
}

static const example_case squares_examples[] = {{.in = {IN_GIVEN("a", 3, 17), IN_GIVEN("b", 5)}},
        {0}};

const op_row op_row_sum_squares = {
        .n_in = 0, // a pipeline stage may have nothing that is trained
        .max_in = -1,
        .shape = squares_shape,
        .wire = squares_wire,
        .attrs = ATTRS(ATTR(mesh, axes), ATTR(mesh, n_alike)),
        .examples = squares_examples,
        .built = true,
};

// adamw(p, m, v, g, norm2, hyper[, w]) -> p', m', v', g' = 0[, w' = p' in the compute type].
// arXiv:1711.05101 algorithm 2 as PyTorch's AdamW computes it, after clipping by global norm:
//   g *= min(1, clip / (sqrt(norm2) + 1e-6));  p -= lr * weight_decay * p
//   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p -= lr * (m / c1) / (sqrt(v / c2) + eps)
// hyper as ir/hyper.h says. When norm2 is not finite, only the gradient is cleared. All in one pass
// over memory.
static const char *adamw_shape(const node *n, tensor_spec *out) {
    for (int i = 0; i < 4; i++) {
        out[i] = spec_in_place(n, i);
        if (!same_type(n->in[i], n->in[0])) return "p, m, v, g must have one type and shape";
    }
    const tensor *norm2 = n->in[4], *hyper = n->in[5];
    if (!is_f64(norm2, 1)) return "norm2 must be one f64";
    if (!is_f64(hyper, N_HYPER)) return "hyper must be f64[N_HYPER]";
    if (n->n_in == 7) {
        out[4] = spec_in_place(n, 6);
        if (!same_shape(n->in[6], n->in[0])) return "the compute copy must fit p";
    }
    return NULL;
}

#define IN_MOMENTS                                                                                 \
    IN_STATE(TENSOR_OPTIMIZER, EXAMPLE_SUMS, -1, 1, "p", 3, 17),                                   \
            IN_STATE(TENSOR_OPTIMIZER, EXAMPLE_SUMS, -0.1, 0.1, "m", 3, 17),                       \
            IN_STATE(TENSOR_OPTIMIZER, EXAMPLE_SUMS, 0.01, 0.1, "v", 3, 17)
#define ADAMW_ATTRS                                                                                \
    { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1 }
static const example_case adamw_examples[] = {{.in = {IN_MOMENTS, IN_SUMS("g", 3, 17), IN_NORM2,
                                                       IN_HYPER},
                                                      .attrs.update = ADAMW_ATTRS},
        {.in = {IN_MOMENTS, IN_SUMS("g", 3, 17), IN_NORM2, IN_HYPER, IN_COPY},
                .attrs.update = ADAMW_ATTRS},
        {0}};

const op_row op_row_adamw = {
        .n_in = 6,
        .max_in = 7,
        .shape = adamw_shape,
        .built = true,
        .attrs = ATTRS(ATTR(update, eps), ATTR(update, beta1), ATTR(update, beta2),
                ATTR(update, weight_decay)),
        .examples = adamw_examples,
};

// barrier(x, dep) -> x, not before dep exists. Ties a recomputed region to the gradient that needs
// it; without it a compiler merges the recomputation with the first computation.
static const char *barrier_shape(const node *n, tensor_spec *out) {
    out[0] = spec_in_place(n, 0);
    return NULL;
}

static const example_case barrier_examples[] = {{.in = {IN_GIVEN("x", 3, 5),
                                                         IN_GIVEN("dep", 2, 2)}},
        {0}};

const op_row op_row_barrier = {
        .n_in = 2,
        .shape = barrier_shape,
        .renames = true,
        .examples = barrier_examples,
        .built = true,
};
