// Distributes the nodes of a differentiated stage over programs that run at different times
// (docs/adr/0011). Values that one part computes and another reads become kept state, which is
// named after its number in the whole graph, so that all parts use the same name.
#include "ir/op.h"
#include "passes/passes.h"

typedef struct cutter {
    const graph *whole;
    const cut_opts *opts;
    int *part;      // by node
    int *made_in;   // by tensor id: the part that makes it; -1: none, it is state
    bool *crosses;  // by tensor id of the first value of a storage: another part reads it
    tensor **value; // by tensor id: the copy in the part that is being made
    graph *g;       // the part that is being made
} cutter;

// Returns whether no other stage waits for a backward node: it only adds to gradients of weights,
// recomputes a value that only such nodes read, or rounds or shards the sum of such a node. (The
// chain of input gradients stays together, also on the first stage, where it ends in a weight.)
static bool is_for_weights(const node *n, const bool *read_earlier) {
    const op_row *row = op_rows[n->op];
    const bool again = n->recomputed || row->renames;
    if (n->phase != PHASE_BACKWARD) return false;
    if (row->goes_with) return is_for_weights(n->in[row->goes_with - 1]->def, read_earlier);
    for (int o = 0; o < n->n_out; o++) {
        const tensor *t = n->out[o];
        const tensor *root = tensor_root(t);
        const bool to_zeros = root->def && op_rows[root->def->op]->clears; // a sum in bf16
        const bool accumulates = root->cls == TENSOR_GRAD || to_zeros;
        if (read_earlier[t->id] || t->cls == TENSOR_OUTPUT || !(again || accumulates)) return false;
    }
    return true;
}

// Finds the part of each node: forward, backward, weight gradients.
static void find_parts(cutter *c) {
    const graph *g = c->whole;
    bool *read_earlier = ARENA_ARRAY(g->a, bool, g->n_tensors);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const node *n = g->nodes[i];
        c->part[i] = n->phase == PHASE_FORWARD ? CUT_FORWARD : CUT_BACKWARD;
        if (c->opts->split_weights && is_for_weights(n, read_earlier)) c->part[i] = CUT_WEIGHTS;
        for (int k = 0; k < n->n_in && c->part[i] != CUT_WEIGHTS; k++)
            read_earlier[n->in[k]->id] = true;
    }
}

// Returns the value that t renames. Parts share storage only between renamed values.
static const tensor *first_of(const tensor *t) {
    while (t->alias && op_rows[t->def->op]->renames)
        t = t->alias;
    return t;
}

static void find_crossings(cutter *c) {
    const graph *g = c->whole;
    for (int i = 0; i < g->n_tensors; i++)
        c->made_in[i] = -1;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            const tensor *first = first_of(n->in[k]);
            const int made_in = c->made_in[first->id];
            if (made_in >= 0 && made_in != c->part[i]) c->crosses[first->id] = true;
        }
        for (int o = 0; o < n->n_out; o++)
            c->made_in[n->out[o]->id] = c->part[i];
    }
}

static char *kept_name(const cutter *c, const tensor *t) {
    return arena_printf(c->g->a, "%skept.%d", c->opts->prefix, t->id);
}

static tensor *state_of(const cutter *c, const tensor *t, tensor_class cls, const char *name) {
    tensor *made = graph_find(c->g, name);
    if (made) return made;
    made = graph_state(c->g, cls, name, t->dt, t->n_dims, t->dim);
    made->trainable = t->trainable;
    made->blocks = t->blocks;
    made->n_slots = cls == TENSOR_KEPT ? c->opts->n_slots : t->n_slots;
    return made;
}

// Returns the tensor of this part that an input of a node becomes.
static tensor *input_of(cutter *c, const tensor *t, int part) {
    if (c->value[t->id]) return c->value[t->id];
    const tensor *first = first_of(t);
    if (c->made_in[first->id] < 0) return state_of(c, first, first->cls, first->name);
    DRV_ASSERT(c->made_in[first->id] != part && !first->alias && first->cls == TENSOR_TEMP,
            "graph %s: %%%d is read in another part than made", c->whole->name, t->id);
    return state_of(c, first, TENSOR_KEPT, kept_name(c, first));
}

static void copy_node(cutter *c, const node *n, int part) {
    graph *g = c->g;
    tensor **in = ARENA_ARRAY(g->a, tensor *, n->n_in);
    for (int k = 0; k < n->n_in; k++)
        in[k] = input_of(c, n->in[k], part);
    g->layer = n->layer;
    g->phase = n->phase;
    node *copy = graph_add(g, n->op, n->n_in, in, &n->attrs);
    copy->recomputed = n->recomputed;
    for (int o = 0; o < n->n_out; o++) {
        const tensor *t = n->out[o];
        tensor *made = c->value[t->id] = copy->out[o];
        if (t->cls == TENSOR_OUTPUT) graph_output(g, made, t->name);
        if (!c->crosses[t->id]) continue;
        DRV_ASSERT(made->cls == TENSOR_TEMP && !made->alias, "graph %s: %%%d is kept", g->name,
                t->id);
        graph_output(g, made, kept_name(c, t));
        made->cls = TENSOR_KEPT;
        made->n_slots = c->opts->n_slots;
    }
}

static graph *copy_part(cutter *c, arena *a, int part) {
    static const char *const names[N_CUTS] = {"forward", "backward", "weights"};
    const graph *whole = c->whole;
    c->g = graph_new(a, arena_printf(a, "%s%s", c->opts->prefix, names[part]));
    c->g->mesh = whole->mesh;
    c->value = ARENA_ARRAY(a, tensor *, whole->n_tensors);
    for (int i = 0; i < whole->n_nodes; i++)
        if (c->part[i] == part) copy_node(c, whole->nodes[i], part);
    graph_leave_layers(c->g);
    c->g->stage = STAGE_DIFFERENTIATED;
    return c->g;
}

void pass_cut(arena *a, const graph *g, const cut_opts *opts, graph *out[N_CUTS]) {
    DRV_ASSERT(g->stage == STAGE_DIFFERENTIATED, "cut of graph %s", g->name);
    cutter c = {.whole = g,
            .opts = opts,
            .part = ARENA_ARRAY(a, int, g->n_nodes),
            .made_in = ARENA_ARRAY(a, int, g->n_tensors),
            .crosses = ARENA_ARRAY(a, bool, g->n_tensors)};
    find_parts(&c);
    find_crossings(&c);
    for (int part = 0; part < N_CUTS; part++)
        out[part] = part == CUT_WEIGHTS && !opts->split_weights ? NULL : copy_part(&c, a, part);
}
