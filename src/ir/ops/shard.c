// ZeRO: data ranks share the optimizer state, and each updates its shard of every weight (ZeRO-1);
// each keeps only its shard of the sums of gradients (ZeRO-2), and of the weights (ZeRO-3).
#include "ir/op.h"
#include "ir/weight_shard.h"
#include "ir/wire.h"

static const char *check_state(const node *n, const tensor *whole) {
    if (n->attrs.mesh.ranks < 1) return "ranks must be positive";
    if (n->attrs.mesh.axis < 0 || n->attrs.mesh.axis >= N_AXES) return "the mesh has no such axis";
    return whole->dt == DT_I32 ? "inputs must be real" : NULL;
}

static tensor_spec spec_of_shard(const node *n, const tensor *whole) {
    return spec_1d(whole->dt, shard_length(tensor_elements(whole), n->attrs.mesh.ranks));
}

// A rank sends all but its own shard, or its own to all others: on the average over the ranks,
// since the last shard may be short.
static double shard_wire(const node *n) {
    return wire_scatter((double)tensor_bytes(n->in[0]), n->attrs.mesh.ranks);
}

// sum_shard(g, last i32[1]) -> g': if `last` is not 0, this rank's shard of g is replaced by its
// sum over the axis; `whole`: all of g is. Otherwise nothing happens: g accumulates in_accum_group
// micro-batches of a step, and only the last one sums over ranks.
static const char *sum_shape(const node *n, tensor_spec *out, int *n_out) {
    *n_out = 1;
    out[0] = spec_in_place(n, 0);
    const char *bad = check_state(n, n->in[0]);
    if (bad) return bad;
    if (n->attrs.sum.data_ranks < 1 || n->attrs.mesh.ranks % n->attrs.sum.data_ranks)
        return "data ranks must divide ranks";
    if (n->attrs.sum.in_accum_group < 1) return "a step must have micro-batches";
    return is_i32(n->in[1], 1) ? NULL : "last must be i32[1]";
}

static double sum_wire(const node *n) {
    return shard_wire(n) * (n->attrs.mesh.whole ? 2 : 1) / n->attrs.sum.in_accum_group;
}

// Spreads the bytes of the last micro-batch, the only one that sums, over all of them.
static double sum_touched(const node *n) {
    return 2 * (double)tensor_bytes(n->in[0]) / n->attrs.sum.in_accum_group;
}

static void sum_example(example *e) {
    static const int32_t last[] = {1};
    tensor *in[] = {example_state(e, TENSOR_GRAD, "g", dtype_acc(e->dt), 3, 17, -1, 1),
            example_integers(e, "last", 1, last)};
    graph_add(e->g, OP_sum_shard, 2, in,
            &(op_attrs){.mesh.axis = AXIS_DATA,
                    .mesh.ranks = 1,
                    .sum.data_ranks = 1,
                    .sum.in_accum_group = 2,
                    .mesh.async = 1});
}

const op_row op_row_sum_shard = {
        .name = "sum_shard",
        .goes_with = 1,
        .in_buckets = true,
        .min_in = 2,
        .max_in = 2,
        .shape = sum_shape,
        .touched = sum_touched,
        .wire = sum_wire,
        .collective = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, async), ATTR(mesh, whole), ATTR(sum, data_ranks),
                ATTR(sum, in_accum_group)),
        .examples = {sum_example},
};

// Returns the length of a rank's shard of a weight that its group of ranks, or the axis, holds.
static int64_t shard_in_group(const node *n, int64_t elements) {
    const mesh_use *use = &n->attrs.mesh;
    return weight_shard_length(elements, use->ranks, use->groups ? use->groups : 1);
}

// reduce_shard(g) -> s, g' = 0: this rank's shard of the sum over the axis, or `across` its groups;
// `summed`: sum_shard has computed it already. `row_blocks`: the reduction blocks of the row on
// each rank, which are summed as in join_blocks (ops/accum_group.c).
static const char *reduce_shape(const node *n, tensor_spec *out, int *n_out) {
    *n_out = 2;
    const tensor *g = n->in[0];
    const char *bad = check_state(n, g);
    if (bad) return bad;
    const int row_blocks = row_blocks_of(&n->attrs);
    out[0] = spec_1d(g->dt, shard_length(tensor_elements(g) / row_blocks, n->attrs.mesh.ranks));
    out[1] = spec_in_place(n, 0);
    if (row_blocks > 1 && n->attrs.mesh.summed)
        return "reduction blocks of the row cannot be summed before";
    if (row_blocks > 1 && g->dim[0] != row_blocks) return "the first dim must be the row_blocks";
    if (row_blocks > 1 &&
            (n->attrs.sum.data_ranks < 1 || n->attrs.mesh.ranks % n->attrs.sum.data_ranks))
        return "data ranks must divide ranks";
    return NULL;
}

static double reduce_wire(const node *n) {
    return n->attrs.mesh.summed ? 0 : shard_wire(n);
}

static void reduce_example(example *e) {
    tensor *in[] = {example_state(e, TENSOR_GRAD, "g", dtype_acc(e->dt), 3, 17, -1, 1)};
    graph_add(e->g, OP_reduce_shard, 1, in, &(op_attrs){.mesh.axis = AXIS_DATA, .mesh.ranks = 1});
}

static void reduce_summed_example(example *e) {
    tensor *in[] = {example_state(e, TENSOR_GRAD, "g", dtype_acc(e->dt), 3, 17, -1, 1)};
    graph_add(e->g, OP_reduce_shard, 1, in,
            &(op_attrs){.mesh.axis = AXIS_DATA, .mesh.ranks = 1, .mesh.summed = 1});
}

static void reduce_blocks_example(example *e) {
    const int64_t dim[] = {2, 3, 17};
    tensor *in[] = {example_accumulator(e, "g", 3, dim)};
    graph_add(e->g, OP_reduce_shard, 1, in,
            &(op_attrs){.mesh.axis = AXIS_DATA,
                    .mesh.ranks = 1,
                    .sum.row_blocks = 2,
                    .sum.data_ranks = 1});
}

const op_row op_row_reduce_shard = {
        .name = "reduce_shard",
        .min_in = 1,
        .max_in = 1,
        .shape = reduce_shape,
        .wire = reduce_wire,
        .collective = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, across), ATTR(mesh, summed), ATTR(sum, row_blocks),
                ATTR(sum, data_ranks)),
        .examples = {reduce_example, reduce_summed_example, reduce_blocks_example},
};

// add_shard(g, s[open, blocks, length], micro_batch i32[1]) -> s': adds the gradients of all ranks
// (with `groups`, of those of its group) for micro-batch `micro_batch` to this rank's shard of the
// sums, in place. `blocks` counts the reduction blocks of the row on all ranks, `row_blocks` those
// on this one. Data rank i of n has micro-batches i, i + n, i + 2 n, ...: the sums are formed in
// the order in which a single rank would run them, in groups of `in_accum_group`. Sums that wait
// for their neighbour in the tree are `open` (ir/shard.h).
static const char *add_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *g = n->in[0], *s = n->in[1];
    const op_attrs *attrs = &n->attrs;
    const int row_blocks = row_blocks_of(attrs);
    *n_out = 1;
    out[0] = spec_in_place(n, 1);
    const char *bad = check_state(n, g);
    if (bad) return bad;
    if (attrs->sum.data_ranks < 1 || attrs->mesh.ranks % attrs->sum.data_ranks)
        return "data ranks must divide ranks";
    if (attrs->sum.in_accum_group < 1) return "an accumulation group must have micro-batches";
    const int64_t blocks = row_blocks * attrs->mesh.ranks / attrs->sum.data_ranks,
                  length = shard_in_group(n, tensor_elements(g) / row_blocks);
    if (s->dt != g->dt || s->n_dims != 3 || s->dim[1] != blocks || s->dim[2] != length)
        return "s must be shards of sums for each reduction block";
    return is_i32(n->in[2], 1) ? NULL : "micro_batch must be i32[1]";
}

static void add_to_open(example *e, int64_t open, const int32_t *micro_batch, int in_accum_group) {
    const int64_t dim[] = {open, 1, 51};
    tensor *in[] = {example_state(e, TENSOR_GRAD, "g", dtype_acc(e->dt), 3, 17, -1, 1),
            example_accumulator(e, "s", 3, dim),
            example_integers(e, "micro_batch", 1, micro_batch)};
    graph_add(e->g, OP_add_shard, 3, in,
            &(op_attrs){.mesh.axis = AXIS_DATA,
                    .mesh.ranks = 1,
                    .sum.data_ranks = 1,
                    .sum.in_accum_group = in_accum_group});
}

static const int32_t first_micro_batch[] = {0}, later_micro_batch[] = {3};

static void add_example(example *e) {
    add_to_open(e, 2, later_micro_batch, 2);
}

static void add_first_example(example *e) { // in the place of what is there
    add_to_open(e, 1, first_micro_batch, 8);
}

static void add_later_example(example *e) {
    add_to_open(e, 1, later_micro_batch, 8);
}

const op_row op_row_add_shard = {
        .name = "add_shard",
        .goes_with = 1,
        .min_in = 3,
        .max_in = 3,
        .shape = add_shape,
        .wire = shard_wire,
        .collective = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, groups), ATTR(sum, row_blocks), ATTR(sum, data_ranks),
                ATTR(sum, in_accum_group)),
        .examples = {add_example, add_first_example, add_later_example},
};

// join_shards(s[.., blocks, length]) -> g[length]: adds the open sums of each reduction block, then
// the blocks, in place of the first one. `row_blocks`: leaves so many blocks apart, g[blocks,
// length], which other groups of ranks add to before they are joined.
static const char *join_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *s = n->in[0];
    *n_out = 1;
    if (s->n_dims != 3 || s->dt == DT_I32) return "s must be shards of sums";
    if (n->attrs.sum.open < 1 || n->attrs.sum.open > s->dim[0])
        return "no such number of open sums";
    out[0] = spec_1d(s->dt, s->dim[2]);
    if (n->attrs.sum.row_blocks) out[0] = spec_2d(s->dt, s->dim[1], s->dim[2]);
    out[0].alias_in = 0;
    return !n->attrs.sum.row_blocks || n->attrs.sum.row_blocks == s->dim[1]
                   ? NULL
                   : "row_blocks must be those of s";
}

static void join_example(example *e) {
    const int64_t dim[] = {3, 4, 51};
    tensor *s = example_accumulator(e, "s", 3, dim);
    graph_add(e->g, OP_join_shards, 1, &s, &(op_attrs){.sum.open = 2});
}

static void join_one_example(example *e) { // of one accumulation group and reduction block
    const int64_t dim[] = {1, 1, 51};
    tensor *s = example_accumulator(e, "s", 3, dim);
    graph_add(e->g, OP_join_shards, 1, &s, &(op_attrs){.sum.open = 1});
}

static void join_apart_example(example *e) {
    const int64_t dim[] = {2, 4, 51};
    tensor *s = example_accumulator(e, "s", 3, dim);
    graph_add(e->g, OP_join_shards, 1, &s, &(op_attrs){.sum.open = 2, .sum.row_blocks = 4});
}

const op_row op_row_join_shards = {
        .name = "join_shards",
        .min_in = 1,
        .max_in = 1,
        .shape = join_shape,
        .differentiated = true,
        .attrs = ATTRS(ATTR(sum, open), ATTR(sum, row_blocks)),
        .examples = {join_example, join_one_example, join_apart_example},
};

// take_shard(w) -> s: a copy of this rank's shard, `across`: of those of all groups; without ranks
// (0), of all that is here.
static const char *take_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *w = n->in[0];
    *n_out = 1;
    out[0] = spec_1d(w->dt, tensor_elements(w));
    if (n->attrs.mesh.ranks == 0) return w->dt == DT_I32 ? "w must be real" : NULL;
    const char *bad = check_state(n, w);
    if (!bad) out[0] = spec_of_shard(n, w);
    return bad;
}

static void take_example(example *e) {
    tensor *in[] = {example_given(e, "w", 3, 17)};
    graph_add(e->g, OP_take_shard, 1, in, &(op_attrs){.mesh.axis = AXIS_DATA, .mesh.ranks = 1});
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
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, across)),
        .examples = {take_example, take_all_example},
};

// gather_shards(w, s) -> w': the shards of all ranks, or `across` all groups, in place. `async`: s
// is copied at once, the shards of other ranks may arrive later.
static const char *gather_shape(const node *n, tensor_spec *out, int *n_out) {
    *n_out = 1;
    const tensor *w = n->in[0], *s = n->in[1];
    const char *bad = check_state(n, w);
    if (bad) return bad;
    out[0] = spec_in_place(n, 0);
    if (s->dt != w->dt ||
            tensor_elements(s) != shard_length(tensor_elements(w), n->attrs.mesh.ranks))
        return "s must be a shard of w";
    return NULL;
}

static void gather_example(example *e) {
    tensor *in[] = {example_state(e, TENSOR_WEIGHT, "w", dtype_acc(e->dt), 3, 17, -1, 1),
            example_state(e, TENSOR_OPTIMIZER, "s", dtype_acc(e->dt), 51, 0, -1, 1)};
    graph_add(e->g, OP_gather_shards, 2, in, &(op_attrs){.mesh.axis = AXIS_DATA, .mesh.ranks = 1});
}

const op_row op_row_gather_shards = {
        .name = "gather_shards",
        .min_in = 2,
        .max_in = 2,
        .shape = gather_shape,
        .wire = shard_wire,
        .collective = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, across), ATTR(mesh, async)),
        .examples = {gather_example},
};

// gather_weight(s) -> w: the weight of which each rank of the axis, or of its group, holds its
// shard s. `async`: w arrives while later nodes run, and a node that reads it waits. A weight in
// blocks (tensor.blocks of w, which whoever makes the node sets) is held as words: s is i32.
static const char *weight_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *s = n->in[0];
    const whole_attrs *w = &n->attrs.whole;
    *n_out = 1;
    out[0] = spec_whole(&n->attrs);
    if (n->attrs.mesh.ranks < 1) return "ranks must be positive";
    if (n->attrs.mesh.axis < 0 || n->attrs.mesh.axis >= N_AXES) return "the mesh has no such axis";
    if (n->attrs.sum.data_ranks < 1 || n->attrs.mesh.ranks % n->attrs.sum.data_ranks)
        return "data ranks must divide ranks";
    const char *bad = check_whole(&n->attrs);
    if (bad) return bad;
    if (s->dt == DT_I32) return s->n_dims == 1 && w->columns ? NULL : "s must be words of a matrix";
    if (s->n_dims != 1 || s->dt != w->type ||
            s->dim[0] != shard_in_group(n, whole_elements(&n->attrs)))
        return "s must be a shard of the weight";
    return NULL;
}

static double weight_wire(const node *n) {
    return wire_scatter((double)tensor_bytes(n->out[0]), n->attrs.mesh.ranks);
}

static void weight_of(example *e, int rows, int columns) {
    tensor *s =
            example_state(e, TENSOR_WEIGHT, "s", e->dt, rows * (columns ? columns : 1), 0, -1, 1);
    graph_add(e->g, OP_gather_weight, 1, &s,
            &(op_attrs){.mesh.axis = AXIS_DATA,
                    .mesh.ranks = 1,
                    .sum.data_ranks = 1,
                    .whole = {rows, columns, e->dt}});
}

static void matrix_example(example *e) {
    weight_of(e, 3, 17);
}

static void vector_example(example *e) {
    weight_of(e, 51, 0);
}

const op_row op_row_gather_weight = {
        .name = "gather_weight",
        .min_in = 1,
        .max_in = 1,
        .shape = weight_shape,
        .wire = weight_wire,
        .collective = true,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, groups), ATTR(mesh, async), ATTR(sum, data_ranks),
                ATTR_WHOLE),
        .examples = {matrix_example, vector_example},
};
