// Shards the weights over ranks (ZeRO-3, docs/adr/0046): a weight is gathered before the first of
// several consecutive units that read it, and its memory is free after the last of them.
#include "ir/op.h"
#include "ir/weight_shard.h"
#include "passes/passes.h"

typedef struct weight_use {
    tensor *now;  // the gathered weight; NULL: none yet
    int unit;     // of the last node that reads it
    bool gathers; // an earlier node of the program has gathered it
} weight_use;

typedef struct insertion { // a gather, or a barrier before one
    node *n;
    int before; // the node that it precedes
} insertion;

typedef struct sharding {
    graph *g;
    const weight_shards *by;
    int *unit, *begin; // by node: the number of its unit; by unit: its first node
    weight_use *use;   // by tensor id
    insertion *made;   // in the order of the nodes that they precede
    int n_made, cap_made;
} sharding;

// Numbers the units: consecutive nodes of one layer, or outside the layers. A node that renames a
// value belongs to the unit of the next node.
static void find_units(sharding *s) {
    const graph *g = s->g;
    int layer = 0, n_units = 0, waiting = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (op_rows[g->nodes[i]->op]->renames && i + 1 < g->n_nodes) continue;
        if (n_units == 0 || g->nodes[i]->layer != layer) s->begin[n_units++] = waiting;
        layer = g->nodes[i]->layer;
        for (; waiting <= i; waiting++)
            s->unit[waiting] = n_units - 1;
    }
}

static void insert_before(sharding *s, int at, node *n) {
    ARENA_GROW(s->g->a, s->made, s->n_made, s->cap_made);
    s->made[s->n_made++] = (insertion){n, at};
}

// Turns a weight into this rank's shard; returns the description of the whole weight.
static tensor whole_weight(tensor *w, const weight_shards *by) {
    const tensor whole = *w;
    const int groups = by->groups ? by->groups : 1;
    w->dim[0] = whole.blocks ? weight_shard_words(&whole, by->ranks, groups)
                             : weight_shard_length(tensor_elements(&whole), by->ranks, groups);
    w->n_dims = 1;
    w->dim[1] = 0;
    if (whole.blocks) w->dt = DT_I32;
    w->blocks = NULL;
    return whole;
}

// Returns the shard of a weight behind a barrier before node `at`, so that no compiler gathers the
// weight earlier, or merges a second gather with the first one and keeps the weight.
static tensor *guarded(sharding *s, tensor *w, int at) {
    graph *g = s->g;
    const bool first = !s->use[w->id].gathers;
    if (at == 0 || (first && s->by->async)) return w;
    tensor *in[] = {w, g->nodes[at - 1]->out[0]};
    node *barrier = graph_make(g, OP_barrier, 2, in, NULL);
    insert_before(s, at, barrier);
    return barrier->out[0];
}

// Adds the gather that node `reader` needs, before the unit in front of the reader's if it is to
// start early.
static tensor *gather(sharding *all, tensor *weight, const tensor *whole, int reader) {
    const weight_shards *by = all->by;
    const int unit = all->unit[reader], at = !by->early ? reader : all->begin[unit ? unit - 1 : 0];
    all->g->layer = all->g->nodes[reader]->layer;
    all->g->phase = all->g->nodes[reader]->phase;
    tensor *shard = guarded(all, weight, at);
    const op_attrs attrs = {.mesh.axis = AXIS_DATA,
            .mesh.ranks = by->ranks,
            .mesh.groups = by->groups,
            .mesh.async = by->async,
            .sum.data_ranks = by->data_ranks,
            .whole = whole_of(whole, whole->dt)};
    node *made = graph_make(all->g, OP_gather_weight, 1, &shard, &attrs);
    made->out[0]->blocks = whole->blocks;
    insert_before(all, at, made);
    all->use[weight->id].gathers = true;
    return made->out[0];
}

// Lets a node read the gathered weight in place of input k.
static void read_whole(sharding *s, const tensor *whole, int reader, int k) {
    node *n = s->g->nodes[reader];
    tensor *w = n->in[k];
    weight_use *use = &s->use[w->id];
    if (!use->now || s->unit[reader] > use->unit + 1)
        use->now = gather(s, w, &whole[w->id], reader);
    use->unit = s->unit[reader];
    n->in[k] = use->now;
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o]->alias == w) n->out[o]->alias = use->now;
}

static void insert_all(sharding *s) {
    graph *g = s->g;
    const node_list old = graph_take_nodes(g);
    for (int i = 0, next = 0; i < old.n; i++) {
        for (; next < s->n_made && s->made[next].before == i; next++)
            graph_append(g, s->made[next].n);
        graph_append(g, old.nodes[i]);
    }
}

void pass_shard_weights(graph *g, const weight_shards *by) {
    const int n_tensors = g->n_tensors, n_nodes = g->n_nodes;
    sharding s = {.g = g,
            .by = by,
            .unit = ARENA_ARRAY(g->a, int, n_nodes + 1),
            .begin = ARENA_ARRAY(g->a, int, n_nodes + 1),
            .use = ARENA_ARRAY(g->a, weight_use, n_tensors)};
    tensor *whole = ARENA_ARRAY(g->a, tensor, n_tensors);
    find_units(&s);
    for (int i = 0; i < n_tensors; i++)
        if (g->tensors[i]->cls == TENSOR_WEIGHT && !g->tensors[i]->def)
            whole[i] = whole_weight(g->tensors[i], by);
    for (int i = 0; i < n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            const tensor *t = g->nodes[i]->in[k];
            if (t->cls == TENSOR_WEIGHT && !t->def) read_whole(&s, whole, i, k);
        }
    insert_all(&s);
    graph_leave_layers(g);
}
