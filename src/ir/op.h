// The op table (design D1): one row an op, one file a row. A row says all that is known of the op
// without a device: inputs, shapes, aliasing, gradient, cost, in which stages it is legal, and an
// example from which the tests make inputs.
#pragma once
#include "ir/graph.h"

typedef struct tensor_spec {
    dtype dt;
    int n_dims;
    int64_t dim[MAX_DIMS];
    int alias_in;   // index of the input whose storage the output takes over; -1: none
    bool may_alias; // alias_in is allowed, not required: only when that input is not needed later
} tensor_spec;

typedef struct grad_ctx grad_ctx;

typedef struct op_row {
    const char *name;
    int min_in, max_in;
    // Fills out[] and n_out. Returns NULL, or what is wrong with the inputs.
    const char *(*shape)(const node *n, tensor_spec *out, int *n_out);
    // Adds the nodes of the gradient. NULL: not differentiable.
    void (*grad)(grad_ctx *c, node *n);
    // Floating-point operations of the arithmetic that a model needs (matmuls, attention; causal
    // attention counts the pairs that are attended). NULL: counted as none.
    double (*flops)(const node *n);
    // For recomputation: how to get output `want` again when output 0 was kept. NULL: run it again.
    node *(*recompute)(graph *g, const node *n, tensor *const *in);
    bool built, differentiated;          // stages in which the op may stand (all may be planned)
    const char *attrs;                   // names of the used attributes, for printing
    void (*example)(graph *g, dtype dt); // a small instance, all differentiable inputs as weights
} op_row;

extern const op_row *const op_rows[N_OPS];

// --- what a gradient rule may use
tensor *grad_of(grad_ctx *c, const tensor *t);          // dL/dt so far; NULL: none
void grad_add(grad_ctx *c, const tensor *t, tensor *d); // adds d to dL/dt
// Weights have an accumulator, a state tensor that an op updates in place. NULL: t is no weight, or
// is frozen.
tensor *grad_buffer(grad_ctx *c, const tensor *t);
void grad_buffer_set(grad_ctx *c, const tensor *t, tensor *updated);
// From now on whoever reads `old` reads `with` (used where forward and backward are one op).
void grad_replace(grad_ctx *c, tensor *old, tensor *with);

struct grad_ctx {
    graph *g;
    tensor **d;      // by tensor id: dL/dt
    tensor **buffer; // by tensor id: current value of the accumulator
    int n;           // length of both
};

// --- shorthands for rows
static inline tensor_spec spec_like(const tensor *t) {
    return (tensor_spec){t->dt, t->n_dims, {t->dim[0], t->dim[1], t->dim[2]}, -1, false};
}
static inline tensor_spec spec_in_place(const node *n, int input) {
    tensor_spec s = spec_like(n->in[input]);
    s.alias_in = input;
    return s;
}
static inline tensor_spec spec_1d(dtype dt, int64_t n) {
    return (tensor_spec){dt, 1, {n, 0, 0}, -1, false};
}
static inline tensor_spec spec_2d(dtype dt, int64_t n, int64_t m) {
    return (tensor_spec){dt, 2, {n, m, 0}, -1, false};
}
static inline bool same_shape(const tensor *a, const tensor *b) {
    if (a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}
static inline bool same_type(const tensor *a, const tensor *b) {
    return a->dt == b->dt && same_shape(a, b);
}
static inline bool is_matrix(const tensor *t) {
    return t->n_dims == 2 && t->dt != DT_I32;
}
static inline bool is_i32(const tensor *t, int64_t n) {
    return t->n_dims == 1 && t->dt == DT_I32 && t->dim[0] == n;
}
static inline bool is_acc(const tensor *t, dtype dt, int64_t n) {
    return t->n_dims == 1 && t->dt == dtype_acc(dt) && t->dim[0] == n;
}
tensor *example_weight(graph *g, const char *name, dtype dt, int64_t n, int64_t m); // m 0: 1-D
tensor *example_ids(graph *g, const char *name, int64_t n); // "position", "ids", "labels"
