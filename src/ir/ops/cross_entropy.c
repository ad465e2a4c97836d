// Linear layer and softmax cross-entropy in one op, `chunk` rows of logits at a time, so that no
// tokens x vocabulary matrix is ever stored (arXiv:2410.10989, section 3.2; arXiv:2411.09009).
//   loss = sum over tokens with label >= 0 of  logsumexp_V(h W^T) - (h W^T)[label]
// linear_cross_entropy(h_NH, w_VH, labels_N) -> loss f64[1]. A negative label is not counted.
#include "ir/op.h"

static const char *check(const node *n) {
    const tensor *h = n->in[0], *w = n->in[1];
    if (!is_matrix(h) || !is_matrix(w) || h->dt != w->dt || h->dim[1] != w->dim[1])
        return "h and w must be matrices of one width";
    if (!is_i32(n->in[2], h->dim[0])) return "labels must be i32[N]";
    if (n->attrs.chunk < 1) return "chunk must be positive";
    return NULL;
}

static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_1d(DT_F64, 1);
    *n_out = 1;
    return check(n);
}

static double flops(const node *n) {
    return 2.0 * (double)tensor_elements(n->in[0]) * (double)n->in[1]->dim[0];
}

// The logits of a chunk serve the loss and both gradients while they are there, so the training
// graph has one op for all three: the gradient of the loss is a number known beforehand.
static void grad(grad_ctx *c, node *n) {
    tensor *acc = grad_buffer(c, n->in[1]);
    DRV_ASSERT(acc, "the output weight has no accumulator");
    tensor *in[] = {n->in[0], n->in[1], n->in[2], grad_of(c, n->out[0]), acc};
    node *k = graph_add(c->g, OP_linear_cross_entropy_grad, 5, in, &n->attrs);
    grad_replace(c, n->out[0], k->out[0]);
    grad_add(c, n->in[0], k->out[1]);
    grad_buffer_set(c, n->in[1], k->out[2]);
}

static void example(graph *g, dtype dt) {
    tensor *in[] = {example_weight(g, "h", dt, 6, 5), example_weight(g, "w", dt, 11, 5),
            example_ids(g, "labels", 6)};
    graph_add(g, OP_linear_cross_entropy, 3, in, &(op_attrs){.chunk = 4});
}

const op_row op_row_linear_cross_entropy = {
        .name = "linear_cross_entropy",
        .min_in = 3,
        .max_in = 3,
        .shape = shape,
        .grad = grad,
        .flops = flops,
        .built = true,
        .differentiated = true,
        .attrs = "chunk",
        .example = example,
};

// (h, w, labels, dloss f64[1], acc) -> loss, dh, acc'
static const char *grad_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *w = n->in[1], *dloss = n->in[3], *acc = n->in[4];
    out[0] = spec_1d(DT_F64, 1);
    out[1] = spec_like(n->in[0]);
    out[2] = spec_in_place(n, 4);
    *n_out = 3;
    if (dloss->dt != DT_F64 || dloss->n_dims != 1 || dloss->dim[0] != 1) return "dloss is one f64";
    if (acc->dt != dtype_acc(w->dt) || !same_shape(acc, w)) return "the accumulator must fit w";
    return check(n);
}

static double grad_flops(const node *n) {
    return 3 * flops(n);
}

const op_row op_row_linear_cross_entropy_grad = {
        .name = "linear_cross_entropy_grad",
        .min_in = 5,
        .max_in = 5,
        .shape = grad_shape,
        .flops = grad_flops,
        .differentiated = true,
        .attrs = "chunk",
};
