// Moves between the memory of a device and that of its host (passes/offload.c).
#include "ir/op.h"

static const char *copy_shape(const node *n, tensor_spec *out) {
    out[0] = spec_like(n->in[0]);
    return NULL;
}

static const example_case to_host_examples[] = {{.in = {IN_GIVEN("x", 3, 17)}}, {0}};

// to_host(x) -> x in the memory of the host, where from_host alone reads it.
const op_row op_row_to_host = {
        .n_in = 1,
        .shape = copy_shape,
        .on_host = true,
        .examples = to_host_examples,
};

static void from_host_example(example *e, int n_in DRV_UNUSED, tensor *const *in, op_attrs attrs) {
    tensor *both[] = {graph_add(e->g, OP_to_host, 1, in, &attrs)->out[0], in[1]};
    graph_add(e->g, OP_from_host, 2, both, &attrs);
}

static const example_case from_host_examples[] = {
        {.make = from_host_example, .in = {IN_GIVEN("x", 3, 17), IN_GIVEN("dep", 2, 2)}},
        {0},
};

// from_host(x, dep) -> x on the device, not before dep exists.
const op_row op_row_from_host = {
        .n_in = 2,
        .shape = copy_shape,
        .examples = from_host_examples,
};
