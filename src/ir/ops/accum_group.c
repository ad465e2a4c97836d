// Gradients of several accumulation groups on one rank. Finished sums form a binary counter
// (docs/adr/0009): put_aside stores the sum of a group, and take_back adds it when its neighbour in
// the tree is finished. The sums of reduction blocks of the row (docs/adr/0015) are all kept until
// join_blocks adds them.
#include "ir/op.h"
#include "ir/wire.h"

// put_aside(g, slot) -> g = 0, slot = g, both in place.
static const char *slot_shape(const node *n, tensor_spec *out) {
    out[0] = spec_in_place(n, 0);
    out[1] = spec_in_place(n, 1);
    return same_type(n->in[0], n->in[1]) ? NULL : "the slot must be like the gradient";
}

static const example_case slot_examples[] = {{.in = {IN_SUMS("g", 3, 17), IN_SUMS("slot", 3, 17)}},
        {0}};

const op_row op_row_put_aside = {
        .n_in = 2,
        .shape = slot_shape,
        .examples = slot_examples,
};

// take_back(g, slot) -> g = slot + g, slot = 0, both in place: the earlier accumulation groups are
// on the left.
const op_row op_row_take_back = {
        .n_in = 2,
        .shape = slot_shape,
        .examples = slot_examples,
};

// join_blocks(g[row_blocks, ...]) -> s[...]: the sum over the reduction blocks of the row, stored
// in place of the first one; the others are cleared. With `ranks`, the sum over those of all ranks:
// a tree over data ranks (`data_ranks` of them), then over blocks, then over context ranks.
static const char *join_shape(const node *n, tensor_spec *out) {
    const tensor *g = n->in[0];
    if (n->attrs.sum.row_blocks < 2 || g->n_dims < 2 || g->dim[0] != n->attrs.sum.row_blocks)
        return "the first dim must be row_blocks";
    out[0] = (tensor_spec){.dt = g->dt,
            .n_dims = g->n_dims - 1,
            .dim = {g->dim[1], g->dim[2]},
            .alias_in = 0};
    return n->attrs.mesh.ranks > 1 ? check_data_ranks(&n->attrs) : NULL;
}

static double join_wire(const node *n) {
    const double bytes = (double)tensor_bytes(n->in[0]);
    const int ranks = n->attrs.mesh.ranks;
    if (ranks <= 1) return 0;
    return wire_scatter(bytes, ranks) + wire_gather(bytes / n->attrs.sum.row_blocks / ranks, ranks);
}

static const example_case join_examples[] = {{.in = {IN_SUMS("g", 4, 3, 17)},
                                                     .attrs.sum.row_blocks = 4},
        {0}};

const op_row op_row_join_blocks = {
        .n_in = 1,
        .shape = join_shape,
        .wire = join_wire,
        .collective = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(sum, row_blocks), ATTR(sum, data_ranks)),
        .examples = join_examples,
};
