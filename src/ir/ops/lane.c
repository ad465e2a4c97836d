// Gradients of several lanes on one rank: a binary counter of finished sums (docs/adr/0009). The
// sum of a lane is put aside; when its neighbour in the tree is finished, the two are joined.
#include "ir/op.h"

// put_aside(g, slot) -> g = 0, slot = g, both in place.
static const char *aside_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_in_place(n, 0);
    out[1] = spec_in_place(n, 1);
    *n_out = 2;
    return same_type(n->in[0], n->in[1]) ? NULL : "the slot must be like the gradient";
}

static void lane_example(example *e, op_kind op) {
    const dtype acc = dtype_acc(e->dt);
    tensor *in[] = {example_state(e, TENSOR_GRAD, "g", acc, 3, 17, -1, 1),
            example_state(e, TENSOR_GRAD, "slot", acc, 3, 17, -1, 1)};
    graph_add(e->g, op, 2, in, NULL);
}

static void aside_example(example *e) {
    lane_example(e, OP_put_aside);
}

const op_row op_row_put_aside = {
        .name = "put_aside",
        .min_in = 2,
        .max_in = 2,
        .shape = aside_shape,
        .differentiated = true,
        .examples = {aside_example},
};

// take_back(g, slot) -> g = slot + g, slot = 0, both in place: the earlier lanes are on the left.
static const char *back_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_in_place(n, 0);
    out[1] = spec_in_place(n, 1);
    *n_out = 2;
    return same_type(n->in[0], n->in[1]) ? NULL : "the slot must be like the gradient";
}

static void back_example(example *e) {
    lane_example(e, OP_take_back);
}

const op_row op_row_take_back = {
        .name = "take_back",
        .min_in = 2,
        .max_in = 2,
        .shape = back_shape,
        .differentiated = true,
        .examples = {back_example},
};
