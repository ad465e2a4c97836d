// Prints collectives over an axis of the mesh, shards of state over data ranks, and ops of which
// each rank takes a part. Over one rank they are the identity and print no operation.
// Legend: s shard; w weight; g gradient.
#include "backend/pjrt/stablehlo/lower_collective.h"

#include "ir/op.h"
#include "ir/weight_shard.h"

// --- groups and places
static int place_along(const lowering *l, int rank, mesh_axis axis) {
    const mesh *m = &l->options.ranks;
    const bool of_update = l->of_update || m->size[AXIS_CONTEXT] == 1;
    if (axis == AXIS_DATA && of_update) return mesh_shard_of(m, rank);
    return axis == AXIS_CONTEXT && l->of_update ? 0 : mesh_place(m, rank, axis);
}

// Groups the ranks that differ only along `axes`, in the order of their places.
static hlo_groups groups_along(lowering *l, unsigned axes) {
    const int n = mesh_ranks(&l->options.ranks);
    int64_t *members = ARENA_ARRAY(l->g->a, int64_t, n);
    hlo_groups groups = {.size = 1, .members = members};
    for (int axis = 0; axis < N_AXES; axis++)
        if (axes >> axis & 1) groups.size *= l->mesh.size[axis];
    groups.n = n / groups.size;
    for (int r = 0; r < n; r++) {
        int group = 0, member = 0;
        for (int axis = 0; axis < N_AXES; axis++) {
            int *number = axes >> axis & 1 ? &member : &group;
            *number = *number * l->mesh.size[axis] + place_along(l, r, (mesh_axis)axis);
        }
        members[group * groups.size + member] = r;
    }
    return groups;
}

hlo_groups lower_neighbours(lowering *l, mesh_axis axis, int n) {
    hlo_groups groups = groups_along(l, 1u << axis);
    DRV_ASSERT(groups.size % n == 0, "%d neighbours of %d ranks", n, groups.size);
    groups.n *= groups.size / n; // groups are stored one after the other
    groups.size = n;
    return groups;
}

// Consecutive owners of shards hold the same shard of the weights, one in each group.
static hlo_groups groups_of(lowering *l, const node *n) {
    const mesh_use *use = &n->attrs.mesh;
    if (use->across) return lower_neighbours(l, (mesh_axis)use->axis, use->ranks);
    hlo_groups all = groups_along(l, 1u << use->axis);
    if (!use->groups) return all;
    int64_t *members = ARENA_ARRAY(l->g->a, int64_t, all.n * all.size);
    for (int i = 0; i < all.n * all.size; i++) {
        const int owner = i % all.size, group = owner % use->groups, place = owner / use->groups;
        members[i - owner + group * use->ranks + place] = all.members[i];
    }
    return (hlo_groups){all.n * use->groups, use->ranks, members};
}

hlo_value lower_sum_along(lowering *l, hlo_value x, unsigned axes) {
    const hlo_groups groups = groups_along(l, axes);
    return groups.size == 1 ? x : hlo_all_reduce(&l->h, "add", x, groups);
}

hlo_value lower_max_along(lowering *l, hlo_value x, unsigned axes) {
    const hlo_groups groups = groups_along(l, axes);
    return groups.size == 1 ? x : hlo_all_reduce(&l->h, "maximum", x, groups);
}

hlo_value lower_place(lowering *l, mesh_axis axis) {
    DRV_ASSERT(l->has_places, "graph \"%s\" has no places", l->g->name);
    const hlo_value here =
            hlo_reshape(&l->h, hlo_slice(&l->h, l->places, 0, (int64_t)axis, 1), 0, NULL);
    if (axis != AXIS_DATA || !l->of_update) return here;
    const hlo_value before = hlo_scale(&l->h, lower_place(l, AXIS_CONTEXT),
            (double)l->options.ranks.size[AXIS_DATA]);
    return hlo_binary(&l->h, "add", before, here);
}

// Returns the place of this rank among those of a node that divides a tensor.
static hlo_value place_of(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const mesh *m = &l->options.ranks;
    if (mesh_groups(m) == 1 || n->attrs.mesh.axis != AXIS_DATA)
        return lower_place(l, (mesh_axis)n->attrs.mesh.axis);
    const hlo_value data = hlo_reshape(h, hlo_slice(h, l->places, 0, AXIS_DATA, 1), 0, NULL),
                    context = hlo_reshape(h, hlo_slice(h, l->places, 0, AXIS_CONTEXT, 1), 0, NULL),
                    size = hlo_fill(h, m->size[AXIS_DATA] / mesh_groups(m), &data),
                    group = hlo_binary(h, "divide", data, size);
    if (n->attrs.mesh.across) return group;
    const hlo_value in_group = hlo_binary(h, "add", hlo_binary(h, "multiply", context, size),
            hlo_binary(h, "remainder", data, size));
    return hlo_binary(h, "add", hlo_scale(h, in_group, mesh_groups(m)), group);
}

hlo_value lower_rows_here(lowering *l, const node *n, hlo_value rows, int64_t n_here,
        hlo_value *is_here) {
    hlo_text *h = &l->h;
    const hlo_value first =
            hlo_scale(h, lower_place(l, (mesh_axis)n->attrs.mesh.axis), (double)n_here);
    const hlo_value here = hlo_binary(h, "subtract", rows, hlo_spread(h, first, &rows));
    *is_here = hlo_binary(h, "and", hlo_compare(h, "GE", here, hlo_fill(h, 0, &here)),
            hlo_compare(h, "LT", here, hlo_fill(h, (double)n_here, &here)));
    return here;
}

// --- values
// The sum over the ends of the pipeline is computed before the program starts (lower_graph.c).
static void all_reduce(lowering *l, const node *n) {
    if (n->attrs.mesh.ranks == 1 || n->attrs.mesh.ends)
        lower_same(l, n);
    else
        lower_set(l, n, 0, hlo_all_reduce(&l->h, "add", lower_in(l, n, 0), groups_of(l, n)));
}

static void all_gather(lowering *l, const node *n) {
    if (n->attrs.mesh.ranks == 1)
        lower_same(l, n);
    else
        lower_set(l, n, 0,
                hlo_all_gather(&l->h, lower_in(l, n, 0), n->attrs.mesh.dim, groups_of(l, n)));
}

static void reduce_scatter(lowering *l, const node *n) {
    const hlo_value x = lower_in(l, n, 0);
    if (n->attrs.mesh.ranks == 1)
        lower_same(l, n);
    else
        lower_set(l, n, 0, hlo_reduce_scatter(&l->h, x, n->attrs.mesh.dim, groups_of(l, n)));
}

const lower_op lower_op_share = {.lower = lower_same};
const lower_op lower_op_all_reduce = {.lower = all_reduce};
const lower_op lower_op_all_gather = {.lower = all_gather};
const lower_op lower_op_reduce_scatter = {.lower = reduce_scatter};

// --- shards: a tensor as one row, padded with zeros to one whole shard for each rank
static int shards_of(const node *n) {
    return n->attrs.mesh.ranks ? n->attrs.mesh.ranks : 1;
}

static hlo_value in_shards(lowering *l, const node *n, hlo_value x) {
    const int64_t elements = hlo_elements(&x);
    const hlo_value row = hlo_reshape(&l->h, x, HLO_DIMS(elements));
    const int groups = n->attrs.mesh.groups ? n->attrs.mesh.groups : 1;
    return hlo_pad(&l->h, row, 0,
            shards_of(n) * weight_shard_length(elements, shards_of(n), groups));
}

static void take_shard(lowering *l, const node *n) {
    const hlo_value row = in_shards(l, n, lower_in(l, n, 0));
    const int64_t length = row.dim[0] / shards_of(n);
    hlo_index first = hlo_at(0);
    if (n->attrs.mesh.ranks > 1) first = (hlo_index){true, 0, place_of(l, n)};
    lower_set(l, n, 0, hlo_take(&l->h, row, 0, hlo_index_times(&l->h, first, length), length));
}

static void reduce_shard(lowering *l, const node *n) {
    const hlo_value g = lower_in(l, n, 0);
    hlo_value shard = in_shards(l, n, g);
    if (n->attrs.mesh.ranks > 1) shard = hlo_reduce_scatter(&l->h, shard, 0, groups_of(l, n));
    lower_set(l, n, 0, shard);
    lower_set(l, n, 1, hlo_cleared(&l->h, g, shard));
}

// Returns the ranks of the update for a program with context ranks in addition to data ranks.
static hlo_groups groups_of_update(const lowering *l, const node *n) {
    lowering merged = *l;
    merged.of_update = l->options.ranks.size[AXIS_CONTEXT] > 1;
    merged.mesh = mesh_of_update(&l->options.ranks);
    return groups_of(&merged, n);
}

// With one accumulation group and one reduction block (setup/run_layout.c) there is one sum, which
// starts at zero in micro-batch 0.
static void add_shard(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value row = in_shards(l, n, lower_in(l, n, 0)), kept = lower_in(l, n, 1);
    const hlo_value micro_batch = hlo_reshape(h, lower_in(l, n, 2), 0, NULL);
    const hlo_value first = hlo_compare(h, "EQ", micro_batch, hlo_scalar(h, HLO_I32, 0));
    const hlo_value like = {.type = HLO_BOOL,
            .n_dims = 3,
            .dim = {kept.dim[0], kept.dim[1], kept.dim[2]}};
    const hlo_value before =
            hlo_select(h, hlo_spread(h, first, &like), hlo_fill(h, 0, &kept), kept);
    const hlo_value added =
            n->attrs.mesh.ranks == 1 ? row : hlo_reduce_scatter(h, row, 0, groups_of_update(l, n));
    lower_set(l, n, 0, hlo_binary(h, "add", before, hlo_reshape(h, added, kept.n_dims, kept.dim)));
}

static void join_shards(lowering *l, const node *n) {
    const hlo_value sum = lower_in(l, n, 0);
    const tensor *out = n->out[0];
    lower_set(l, n, 0, hlo_reshape(&l->h, sum, out->n_dims, out->dim));
}

static void gather_shards(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value w = lower_in(l, n, 0), s = lower_in(l, n, 1);
    const hlo_value row = n->attrs.mesh.ranks == 1 ? s : hlo_all_gather(h, s, 0, groups_of(l, n));
    const hlo_value whole = hlo_slice(h, row, 0, 0, hlo_elements(&w));
    lower_set(l, n, 0, hlo_reshape(h, whole, w.n_dims, w.dim));
}

static void gather_weight(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const tensor *w = n->out[0];
    const hlo_value s = lower_in(l, n, 0);
    const hlo_value row =
            n->attrs.mesh.ranks == 1 ? s : hlo_all_gather(h, s, 0, groups_of_update(l, n));
    lower_set(l, n, 0,
            hlo_reshape(h, hlo_slice(h, row, 0, 0, tensor_elements(w)), w->n_dims, w->dim));
}

const lower_op lower_op_take_shard = {.lower = take_shard};
const lower_op lower_op_reduce_shard = {.lower = reduce_shard};
const lower_op lower_op_await_shard = {.lower = lower_same};
const lower_op lower_op_add_shard = {.lower = add_shard, .sums = 2, .of_update = true};
const lower_op lower_op_join_shards = {.lower = join_shards, .sums = 1};
const lower_op lower_op_gather_shards = {.lower = gather_shards};
const lower_op lower_op_gather_weight = {.lower = gather_weight, .of_update = true};
