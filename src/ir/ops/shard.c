// ZeRO: data ranks share the optimizer state, and each updates its shard of every weight (ZeRO-1);
// each keeps only its shard of the sums of gradients (ZeRO-2), and of the weights (ZeRO-3).
#include "ir/op.h"
#include "ir/weight_shard.h"
#include "ir/wire.h"

static const char *check_state(const node *n, const tensor *whole) {
    const char *bad = check_ranks(&n->attrs);
    return bad || whole->dt != DT_I32 ? bad : "inputs must be real";
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
static const char *sum_shape(const node *n, tensor_spec *out) {
    out[0] = spec_in_place(n, 0);
    const char *bad = check_state(n, n->in[0]);
    if (!bad) bad = check_data_ranks(&n->attrs);
    if (bad) return bad;
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

#define ONE_RANK .axis = AXIS_DATA, .ranks = 1
static const int32_t example_last[] = {1};
static const example_case sum_examples[] =
        {{.in = {IN_SUMS("g", 3, 17), IN_INTEGERS("last", 1, example_last)},
                 .attrs = {.mesh = {ONE_RANK, .async = 1},
                         .sum = {.data_ranks = 1, .in_accum_group = 2}}},
                {0}};

const op_row op_row_sum_shard = {
        .goes_with = 1,
        .in_buckets = true,
        .n_in = 2,
        .shape = sum_shape,
        .touched = sum_touched,
        .wire = sum_wire,
        .collective = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, async), ATTR(mesh, whole), ATTR(sum, data_ranks),
                ATTR(sum, in_accum_group)),
        .examples = sum_examples,
};

// Returns the length of a rank's shard of a weight that its group of ranks, or the axis, holds.
static int64_t shard_in_group(const node *n, int64_t elements) {
    const mesh_use *use = &n->attrs.mesh;
    return weight_shard_length(elements, use->ranks, use->groups ? use->groups : 1);
}

// reduce_shard(g) -> s, g' = 0: this rank's shard of the sum over the axis, or `across` its groups;
// `summed`: sum_shard has computed it already. `row_blocks`: the reduction blocks of the row on
// each rank, which are summed as in join_blocks (ops/accum_group.c).
static const char *reduce_shape(const node *n, tensor_spec *out) {
    const tensor *g = n->in[0];
    const char *bad = check_state(n, g);
    if (bad) return bad;
    const int row_blocks = row_blocks_of(&n->attrs);
    out[0] = spec_1d(g->dt, shard_length(tensor_elements(g) / row_blocks, n->attrs.mesh.ranks));
    out[1] = spec_in_place(n, 0);
    if (row_blocks > 1 && n->attrs.mesh.summed)
        return "reduction blocks of the row cannot be summed before";
    if (row_blocks > 1 && g->dim[0] != row_blocks) return "the first dim must be the row_blocks";
    return row_blocks > 1 ? check_data_ranks(&n->attrs) : NULL;
}

static double reduce_wire(const node *n) {
    return n->attrs.mesh.summed ? 0 : shard_wire(n);
}

static const example_case reduce_examples[] = {{.in = {IN_SUMS("g", 3, 17)},
                                                       .attrs.mesh = {ONE_RANK}},
        {.in = {IN_SUMS("g", 3, 17)}, .attrs.mesh = {ONE_RANK, .summed = 1}},
        {.in = {IN_SUMS("g", 2, 3, 17)},
                .attrs = {.mesh = {ONE_RANK}, .sum = {.row_blocks = 2, .data_ranks = 1}}},
        {0}};

const op_row op_row_reduce_shard = {
        .n_in = 1,
        .shape = reduce_shape,
        .wire = reduce_wire,
        .collective = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, across), ATTR(mesh, summed), ATTR(sum, row_blocks),
                ATTR(sum, data_ranks)),
        .examples = reduce_examples,
};

// add_shard(g, s[open, blocks, length], micro_batch i32[1]) -> s': adds the gradients of all ranks
// (with `groups`, of those of its group) for micro-batch `micro_batch` to this rank's shard of the
// sums, in place. `blocks` counts the reduction blocks of the row on all ranks, `row_blocks` those
// on this one. Data rank i of n has micro-batches i, i + n, i + 2 n, ...: the sums are formed in
// the order in which a single rank would run them, in groups of `in_accum_group`. Sums that wait
// for their neighbour in the tree are `open` (ir/shard.h). `async`: the sums are complete later,
// for which await_shard waits, and there is an output r beside s': memory for what comes from other
// ranks, and for open sums.
static int64_t received_elements(const node *n) {
    const int64_t row_blocks = row_blocks_of(&n->attrs), ranks = n->attrs.mesh.ranks,
                  scratch = SHARD_MAX_OPEN * SHARD_SUM_ELEMENTS * (int64_t)sizeof(double);
    return row_blocks * ranks * shard_in_group(n, tensor_elements(n->in[0]) / row_blocks) +
           scratch / dtype_bytes(n->in[0]->dt);
}

static const char *add_shape(const node *n, tensor_spec *out) {
    const tensor *g = n->in[0], *s = n->in[1];
    const op_attrs *attrs = &n->attrs;
    const int row_blocks = row_blocks_of(attrs);
    out[0] = spec_in_place(n, 1);
    const char *bad = check_state(n, g);
    if (!bad) bad = check_data_ranks(attrs);
    if (bad) return bad;
    if (attrs->mesh.async) out[1] = spec_1d(g->dt, received_elements(n));
    if (attrs->sum.in_accum_group < 1) return "an accumulation group must have micro-batches";
    const int64_t blocks = row_blocks * attrs->mesh.ranks / attrs->sum.data_ranks,
                  length = shard_in_group(n, tensor_elements(g) / row_blocks);
    if (s->dt != g->dt || s->n_dims != 3 || s->dim[1] != blocks || s->dim[2] != length)
        return "s must be shards of sums for each reduction block";
    return is_i32(n->in[2], 1) ? NULL : "micro_batch must be i32[1]";
}

static const int32_t first_micro_batch[] = {0}, later_micro_batch[] = {3};

#define ADD_TO(open, micro_batch, group)                                                           \
    {                                                                                              \
        .in = {IN_SUMS("g", 3, 17), IN_SUMS("s", open, 1, 51),                                     \
                IN_INTEGERS("micro_batch", 1, micro_batch)},                                       \
        .attrs =                                                                                   \
        {.mesh = {ONE_RANK},                                                                       \
            .sum = {.data_ranks = 1, .in_accum_group = group} }                                    \
    }
static const example_case add_examples[] = {ADD_TO(2, later_micro_batch, 2),
        ADD_TO(1, first_micro_batch, 8), // in the place of what is there
        ADD_TO(1, later_micro_batch, 8), {0}};

const op_row op_row_add_shard = {
        .goes_with = 1,
        .n_in = 3,
        .shape = add_shape,
        .wire = shard_wire,
        .collective = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, async), ATTR(mesh, groups), ATTR(sum, row_blocks),
                ATTR(sum, data_ranks), ATTR(sum, in_accum_group)),
        .examples = add_examples,
};

// await_shard(s, g, r) -> s: waits until an asynchronous add_shard has written the sums s. Until
// then g and r, which it reads and writes, keep their memory.
static const char *await_shape(const node *n, tensor_spec *out) {
    out[0] = spec_in_place(n, 0);
    return NULL;
}

static double await_touched(const node *n DRV_UNUSED) {
    return 0;
}

static const example_case await_examples[] = {
        {.in = {IN_SUMS("s", 1, 1, 51), IN_GIVEN("g", 3, 17), IN_GIVEN("r", 3, 17)}},
        {0},
};

const op_row op_row_await_shard = {
        .n_in = 3,
        .goes_with = 1,
        .shape = await_shape,
        .touched = await_touched,
        .examples = await_examples,
};

// join_shards(s[.., blocks, length]) -> g[length]: adds the open sums of each reduction block, then
// the blocks, in place of the first one. `row_blocks`: leaves so many blocks apart, g[blocks,
// length], which other groups of ranks add to before they are joined.
static const char *join_shape(const node *n, tensor_spec *out) {
    const tensor *s = n->in[0];
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

static const example_case join_examples[] = {{.in = {IN_SUMS("s", 3, 4, 51)}, .attrs.sum.open = 2},
        // One accumulation group and reduction block.
        {.in = {IN_SUMS("s", 1, 1, 51)}, .attrs.sum.open = 1},
        {.in = {IN_SUMS("s", 2, 4, 51)}, .attrs.sum = {.open = 2, .row_blocks = 4}}, {0}};

const op_row op_row_join_shards = {
        .n_in = 1,
        .shape = join_shape,
        .attrs = ATTRS(ATTR(sum, open), ATTR(sum, row_blocks)),
        .examples = join_examples,
};

// take_shard(w) -> s: a copy of this rank's shard, `across`: of those of all groups; without ranks
// (0), of all that is here.
static const char *take_shape(const node *n, tensor_spec *out) {
    const tensor *w = n->in[0];
    out[0] = spec_1d(w->dt, tensor_elements(w));
    if (n->attrs.mesh.ranks == 0) return w->dt == DT_I32 ? "w must be real" : NULL;
    const char *bad = check_state(n, w);
    if (!bad) out[0] = spec_of_shard(n, w);
    return bad;
}

static const example_case take_examples[] = {{.in = {IN_GIVEN("w", 3, 17)},
                                                     .attrs.mesh = {ONE_RANK}},
        {.in = {IN_GIVEN("w", 3, 17)}}, {0}};

const op_row op_row_take_shard = {
        .n_in = 1,
        .shape = take_shape,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, across)),
        .examples = take_examples,
};

// gather_shards(w, s) -> w': the shards of all ranks, or `across` all groups, in place. `async`: s
// is copied at once, the shards of other ranks may arrive later.
static const char *gather_shape(const node *n, tensor_spec *out) {
    const tensor *w = n->in[0], *s = n->in[1];
    const char *bad = check_state(n, w);
    if (bad) return bad;
    out[0] = spec_in_place(n, 0);
    if (s->dt != w->dt ||
            tensor_elements(s) != shard_length(tensor_elements(w), n->attrs.mesh.ranks))
        return "s must be a shard of w";
    return NULL;
}

static const example_case gather_examples[] =
        {{.in = {IN_STATE(TENSOR_WEIGHT, EXAMPLE_SUMS, -1, 1, "w", 3, 17),
                  IN_STATE(TENSOR_OPTIMIZER, EXAMPLE_SUMS, -1, 1, "s", 51)},
                 .attrs.mesh = {ONE_RANK}},
                {0}};

const op_row op_row_gather_shards = {
        .n_in = 2,
        .shape = gather_shape,
        .wire = shard_wire,
        .collective = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, across), ATTR(mesh, async)),
        .examples = gather_examples,
};

// gather_weight(s) -> w: the weight of which each rank of the axis, or of its group, holds its
// shard s. `async`: w arrives while later nodes run, and a node that reads it waits. A weight in
// blocks (tensor.blocks of w, which whoever makes the node sets) is held as words: s is i32.
static const char *weight_shape(const node *n, tensor_spec *out) {
    const tensor *s = n->in[0];
    const whole_attrs *w = &n->attrs.whole;
    out[0] = spec_whole(&n->attrs);
    const char *bad = check_ranks(&n->attrs);
    if (!bad) bad = check_data_ranks(&n->attrs);
    if (!bad) bad = check_whole(&n->attrs);
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

static void make_weight(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    attrs.whole.type = e->dt;
    graph_add(e->g, OP_gather_weight, n_in, in, &attrs);
}

#define GATHER_TO(...)                                                                             \
    {                                                                                              \
        .in = {IN_STATE(TENSOR_WEIGHT, EXAMPLE_OWN, -1, 1, "s", 51)},                              \
        .attrs = {.mesh = {ONE_RANK}, .sum.data_ranks = 1, .whole = {__VA_ARGS__}},                \
        .make = make_weight                                                                        \
    }
static const example_case weight_examples[] = {GATHER_TO(.rows = 3, .columns = 17),
        GATHER_TO(.rows = 51), {0}};

const op_row op_row_gather_weight = {
        .n_in = 1,
        .shape = weight_shape,
        .wire = weight_wire,
        .collective = true,
        .built = true,
        .attrs = ATTRS(ATTR_RANKS, ATTR(mesh, groups), ATTR(mesh, async), ATTR(sum, data_ranks),
                ATTR_WHOLE),
        .examples = weight_examples,
};
