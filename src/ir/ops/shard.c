// Optimizer state that data ranks share (ZeRO-1): each updates its shard of every weight.
#include "ir/op.h"
#include "ir/shard.h"
#include "ir/wire.h"

static const char *check_state(const node *n, const tensor *whole) {
    if (n->attrs.ranks < 1) return "ranks must be positive";
    if (n->attrs.axis < 0 || n->attrs.axis >= N_AXES) return "the mesh has no such axis";
    return whole->dt == DT_I32 ? "inputs must be real" : NULL;
}

static tensor_spec spec_of_shard(const node *n, const tensor *whole) {
    return spec_1d(whole->dt, shard_length(tensor_elements(whole), n->attrs.ranks));
}

// A rank sends all but its own shard, or its own to all others: on the average over the ranks,
// since the last shard may be short.
static double shard_wire(const node *n) {
    return wire_scatter((double)tensor_bytes(n->in[0]), n->attrs.ranks);
}

// reduce_shard(g) -> s, g' = 0: this rank's shard of the sum over the axis. `lanes`: each rank has
// so many leaves of the row, which are summed as in join_lanes (ops/lane.c).
static const char *reduce_shape(const node *n, tensor_spec *out, int *n_out) {
    *n_out = 2;
    const tensor *g = n->in[0];
    const char *bad = check_state(n, g);
    if (bad) return bad;
    const int lanes = lanes_of(&n->attrs);
    out[0] = spec_1d(g->dt, shard_length(tensor_elements(g) / lanes, n->attrs.ranks));
    out[1] = spec_in_place(n, 0);
    if (lanes > 1 && g->dim[0] != lanes) return "the first dim must be the lanes";
    if (lanes > 1 && (n->attrs.data_ranks < 1 || n->attrs.ranks % n->attrs.data_ranks))
        return "data ranks must divide ranks";
    return NULL;
}

static void reduce_example(example *e) {
    tensor *in[] = {example_state(e, TENSOR_GRAD, "g", dtype_acc(e->dt), 3, 17, -1, 1)};
    graph_add(e->g, OP_reduce_shard, 1, in, &(op_attrs){.axis = AXIS_DATA, .ranks = 1});
}

static void reduce_lanes_example(example *e) {
    const int64_t dim[] = {2, 3, 17};
    tensor *in[] = {example_accumulator(e, "g", 3, dim)};
    graph_add(e->g, OP_reduce_shard, 1, in,
            &(op_attrs){.axis = AXIS_DATA, .ranks = 1, .lanes = 2, .data_ranks = 1});
}

const op_row op_row_reduce_shard = {
        .name = "reduce_shard",
        .min_in = 1,
        .max_in = 1,
        .shape = reduce_shape,
        .wire = shard_wire,
        .differentiated = true,
        .attrs = ATTR(axis) | ATTR(ranks) | ATTR(lanes) | ATTR(data_ranks),
        .examples = {reduce_example, reduce_lanes_example},
};

// take_shard(w) -> s: a copy of this rank's shard; without ranks (0), of all that is here.
static const char *take_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *w = n->in[0];
    *n_out = 1;
    out[0] = spec_1d(w->dt, tensor_elements(w));
    if (n->attrs.ranks == 0) return w->dt == DT_I32 ? "w must be real" : NULL;
    const char *bad = check_state(n, w);
    if (!bad) out[0] = spec_of_shard(n, w);
    return bad;
}

static void take_example(example *e) {
    tensor *in[] = {example_given(e, "w", 3, 17)};
    graph_add(e->g, OP_take_shard, 1, in, &(op_attrs){.axis = AXIS_DATA, .ranks = 1});
}

static void take_all_example(example *e) {
    tensor *in[] = {example_given(e, "w", 3, 17)};
    graph_add(e->g, OP_take_shard, 1, in, NULL);
}

const op_row op_row_take_shard = {
        .name = "take_shard",
        .min_in = 1,
        .max_in = 1,
        .shape = take_shape,
        .differentiated = true,
        .attrs = ATTR(axis) | ATTR(ranks),
        .examples = {take_example, take_all_example},
};

// gather_shards(w, s) -> w': the shards of all ranks, in place.
static const char *gather_shape(const node *n, tensor_spec *out, int *n_out) {
    *n_out = 1;
    const tensor *w = n->in[0], *s = n->in[1];
    const char *bad = check_state(n, w);
    if (bad) return bad;
    out[0] = spec_in_place(n, 0);
    if (s->dt != w->dt || tensor_elements(s) != shard_length(tensor_elements(w), n->attrs.ranks))
        return "s must be a shard of w";
    return NULL;
}

static void gather_example(example *e) {
    tensor *in[] = {example_state(e, TENSOR_WEIGHT, "w", dtype_acc(e->dt), 3, 17, -1, 1),
            example_state(e, TENSOR_OPTIMIZER, "s", dtype_acc(e->dt), 51, 0, -1, 1)};
    graph_add(e->g, OP_gather_shards, 2, in, &(op_attrs){.axis = AXIS_DATA, .ranks = 1});
}

const op_row op_row_gather_shards = {
        .name = "gather_shards",
        .min_in = 2,
        .max_in = 2,
        .shape = gather_shape,
        .wire = shard_wire,
        .differentiated = true,
        .attrs = ATTR(axis) | ATTR(ranks),
        .examples = {gather_example},
};
