// Moves between the memory of a device and that of its host (passes/offload.c).
#include "ir/op.h"

static const char *copy_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_like(n->in[0]);
    *n_out = 1;
    return NULL;
}

static void to_host_example(example *e) {
    tensor *x = example_given(e, "x", 3, 17);
    graph_add(e->g, OP_to_host, 1, &x, NULL);
}

// to_host(x) -> x in the memory of the host, where from_host alone reads it.
const op_row op_row_to_host = {
        .name = "to_host",
        .min_in = 1,
        .max_in = 1,
        .shape = copy_shape,
        .on_host = true,
        .differentiated = true,
        .examples = {to_host_example},
};

static void from_host_example(example *e) {
    tensor *x = example_given(e, "x", 3, 17), *dep = example_given(e, "dep", 2, 2);
    tensor *in[] = {graph_add(e->g, OP_to_host, 1, &x, NULL)->out[0], dep};
    graph_add(e->g, OP_from_host, 2, in, NULL);
}

// from_host(x, dep) -> x on the device, not before dep exists.
const op_row op_row_from_host = {
        .name = "from_host",
        .min_in = 2,
        .max_in = 2,
        .shape = copy_shape,
        .differentiated = true,
        .examples = {from_host_example},
};
