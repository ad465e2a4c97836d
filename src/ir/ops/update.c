// The ops of the update program.
#include "ir/op.h"

// sum_squares(t1, t2, ...) -> f64[1]: the sum over all elements of all inputs.
static const char *squares_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_1d(DT_F64, 1);
    *n_out = 1;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->dt == DT_I32) return "inputs must be real";
    return NULL;
}

const op_row op_row_sum_squares = {
        .name = "sum_squares",
        .min_in = 1,
        .max_in = -1,
        .shape = squares_shape,
        .built = true,
        .differentiated = true,
};

// adamw(p, m, v, g, norm2, hyper[, w]) -> p', m', v', g' = 0[, w' = p' in the compute type].
// arXiv:1711.05101 algorithm 2 as PyTorch's AdamW computes it, after clipping by global norm:
//   g *= min(1, clip / (sqrt(norm2) + 1e-6));  p -= lr * weight_decay * p
//   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p -= lr * (m / c1) / (sqrt(v / c2) + eps)
// hyper f64[4] = {lr, c1 = 1 - b1^t, c2 = 1 - b2^t, clip (0: none)}. When norm2 is not finite, only
// the gradient is cleared. All in one pass over memory.
static const char *adamw_shape(const node *n, tensor_spec *out, int *n_out) {
    for (int i = 0; i < 4; i++) {
        out[i] = spec_in_place(n, i);
        if (!same_type(n->in[i], n->in[0])) return "p, m, v, g must have one type and shape";
    }
    *n_out = 4;
    const tensor *norm2 = n->in[4], *hyper = n->in[5];
    if (norm2->dt != DT_F64 || norm2->dim[0] != 1) return "norm2 is one f64";
    if (hyper->dt != DT_F64 || hyper->dim[0] != 4) return "hyper is f64[4]";
    if (n->n_in == 7) {
        out[(*n_out)++] = spec_in_place(n, 6);
        if (!same_shape(n->in[6], n->in[0])) return "the compute copy must fit p";
    }
    return NULL;
}

const op_row op_row_adamw = {
        .name = "adamw",
        .min_in = 6,
        .max_in = 7,
        .shape = adamw_shape,
        .built = true,
        .differentiated = true,
        .attrs = "beta1 beta2 eps weight_decay",
};

// barrier(x, dep) -> x, not before dep exists. Ties a recomputed region to the gradient that needs
// it; without it a compiler merges the recomputation with the first computation.
static const char *barrier_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_in_place(n, 0);
    *n_out = 1;
    return NULL;
}

const op_row op_row_barrier = {
        .name = "barrier",
        .min_in = 2,
        .max_in = 2,
        .shape = barrier_shape,
        .differentiated = true,
};
