// Lifetimes, shared storage, offsets and totals of a graph. Every pass over it is linear but the
// placing (place.c).
#include "plan/plan.h"

#include "base/round.h"
#include "ir/op.h"
#include "plan/place.h"

static void find_lifetimes(plan *p) {
    const graph *g = p->g;
    for (int i = 0; i < g->n_tensors; i++)
        p->first[i] = p->last[i] = -1;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            p->last[n->in[k]->id] = i;
        for (int o = 0; o < n->n_out; o++)
            p->first[n->out[o]->id] = p->last[n->out[o]->id] = i;
    }
}

// Finds the tensor whose storage t shares (union-find with path compression; later storages point
// to earlier ones).
static const tensor *storage_of(plan *p, const tensor *t) {
    const tensor *root = t;
    while (p->storage[root->id] != root)
        root = p->storage[root->id];
    while (t != root) {
        const tensor *next = p->storage[t->id];
        p->storage[t->id] = root;
        t = next;
    }
    return root;
}

// Merges the storage of t into that of `root` and extends the lifetime of `root`.
static void join(plan *p, const tensor *t, const tensor *root) {
    p->storage[t->id] = root;
    if (p->last[t->id] > p->last[root->id]) p->last[root->id] = p->last[t->id];
}

// Merges in-place outputs with the storage of their inputs, in program order.
static void find_storage(plan *p) {
    const graph *g = p->g;
    for (int i = 0; i < g->n_tensors; i++)
        p->storage[i] = g->tensors[i];
    for (int i = 0; i < g->n_nodes; i++)
        for (int o = 0; o < g->nodes[i]->n_out; o++) {
            const tensor *t = g->nodes[i]->out[o];
            if (t->alias) join(p, t, storage_of(p, t->alias));
        }
}

// Returns whether another input of the node shares the storage.
static bool is_read_twice(plan *p, const node *n, int input) {
    const tensor *root = storage_of(p, n->in[input]);
    for (int k = 0; k < n->n_in; k++)
        if (k != input && storage_of(p, n->in[k]) == root) return true;
    return false;
}

// Lets an output take over the storage of an input that is a temporary of the same size and not
// needed later.
static bool may_take_over(plan *p, int index, const tensor *t, int input) {
    const node *n = p->g->nodes[index];
    const tensor *root = storage_of(p, n->in[input]);
    return t->cls == TENSOR_TEMP && root->cls == TENSOR_TEMP && p->last[root->id] <= index &&
           tensor_bytes(root) == tensor_bytes(t) && !is_read_twice(p, n, input);
}

static void find_optional_aliases(plan *p) {
    for (int i = 0; i < p->g->n_nodes; i++) {
        const node *n = p->g->nodes[i];
        tensor_spec spec[MAX_OUT];
        int n_out;
        op_outputs(n, spec, &n_out);
        for (int o = 0; o < n_out; o++)
            if (spec[o].may_alias && may_take_over(p, i, n->out[o], spec[o].alias_in))
                join(p, n->out[o], storage_of(p, n->in[spec[o].alias_in]));
    }
    for (int i = 0; i < p->g->n_tensors; i++)
        storage_of(p, p->g->tensors[i]); // every path has one step now
}

// Lists each storage of temporaries in the memory of the device, or of the host, under the tensor's
// id. Returns their number.
static int list_tensors(const plan *p, bool on_host, place_item *items) {
    int n_items = 0;
    for (int i = 0; i < p->g->n_tensors; i++) {
        const tensor *t = p->g->tensors[i];
        if (t->cls != TENSOR_TEMP || p->first[i] < 0 || p->storage[i] != t) continue;
        if (op_rows[t->def->op]->on_host != on_host) continue;
        const int64_t bytes = round_up(tensor_bytes(t), PLAN_ALIGN);
        items[n_items++] =
                (place_item){.bytes = bytes, .first = p->first[i], .last = p->last[i], .id = i};
    }
    return n_items;
}

// Lists the scratch of each node under the node's index after all tensors.
static int list_scratch(const plan *p, workspace_fn workspace, void *ctx, place_item *items) {
    const graph *g = p->g;
    int n_items = 0;
    for (int i = 0; i < g->n_nodes && workspace; i++) {
        const int64_t bytes = round_up(workspace(ctx, g->nodes[i]), PLAN_ALIGN);
        if (bytes)
            items[n_items++] =
                    (place_item){.bytes = bytes, .first = i, .last = i, .id = g->n_tensors + i};
    }
    return n_items;
}

static void place_scratch(plan *p, const place_item *item) {
    const int index = item->id - p->g->n_tensors;
    p->workspace[index] = item->offset;
    p->scratch_bytes[index] = item->bytes;
}

static void place(plan *made, arena *a, workspace_fn workspace, void *ctx) {
    const int n_tensors = made->g->n_tensors, n_nodes = made->g->n_nodes;
    place_item *items = ARENA_ARRAY(a, place_item, n_tensors + n_nodes);
    int n_items = list_tensors(made, false, items);
    n_items += list_scratch(made, workspace, ctx, items + n_items);
    made->arena_bytes = place_items(items, n_items, n_nodes, &made->place_probes);
    for (int i = 0; i < n_tensors; i++)
        made->offset[i] = -1;
    for (int i = 0; i < n_items; i++) {
        if (items[i].id < n_tensors)
            made->offset[items[i].id] = items[i].offset;
        else
            place_scratch(made, &items[i]);
    }
    n_items = list_tensors(made, true, items);
    made->host_bytes = place_items(items, n_items, n_nodes, NULL);
    for (int i = 0; i < n_items; i++)
        made->offset[items[i].id] = made->arena_bytes + items[i].offset;
    made->arena_bytes += made->host_bytes;
    for (int i = 0; i < n_tensors; i++)
        made->offset[i] = made->offset[made->storage[i]->id];
}

int64_t plan_state_bytes(const tensor *t) {
    return t->pool ? 0 : round_up(tensor_bytes(t), PLAN_ALIGN);
}

// Bytes along its axis, or along each of its axes.
void plan_add_wire(const graph *g, const node *n, double bytes[N_AXES]) {
    node along = *n;
    const op_row *row = op_rows[n->op];
    if (!row->wire) return;
    if (OP_READS(n->op, mesh, axis)) bytes[n->attrs.mesh.axis] += row->wire(n);
    if (row->wire_replicas) bytes[AXIS_TENSOR] += row->wire_replicas(n);
    for (int axis = 0; axis < N_AXES; axis++) {
        if (!(n->attrs.mesh.axes >> axis & 1)) continue;
        along.attrs.mesh.ranks = g->mesh.size[axis];
        bytes[axis] += row->wire(&along);
    }
}

static void add_up(plan *p) {
    const graph *g = p->g;
    const state_pool *pool = NULL; // a graph sees one at most
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->cls != TENSOR_TEMP && !t->alias) p->class_bytes[t->cls] += plan_state_bytes(t);
        if (t->pool) pool = t->pool;
    }
    if (pool) p->class_bytes[TENSOR_KEPT] += pool->bytes;
    for (int i = 0; i < g->n_nodes; i++) {
        const op_row *row = op_rows[g->nodes[i]->op];
        if (row->flops) p->flops += row->flops(g->nodes[i]);
        plan_add_wire(g, g->nodes[i], p->wire_bytes);
    }
}

plan *plan_make(arena *a, graph *g, workspace_fn workspace, void *ctx) {
    plan *p = ARENA_NEW(a, plan);
    p->g = g;
    p->offset = ARENA_ARRAY(a, int64_t, g->n_tensors);
    p->first = ARENA_ARRAY(a, int, g->n_tensors);
    p->last = ARENA_ARRAY(a, int, g->n_tensors);
    p->storage = ARENA_ARRAY(a, const tensor *, g->n_tensors);
    p->workspace = ARENA_ARRAY(a, int64_t, g->n_nodes);
    p->scratch_bytes = ARENA_ARRAY(a, int64_t, g->n_nodes);
    find_lifetimes(p);
    find_storage(p);
    find_optional_aliases(p);
    place(p, a, workspace, ctx);
    add_up(p);
    g->stage = STAGE_PLANNED;
    return p;
}
