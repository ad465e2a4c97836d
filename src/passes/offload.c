// Moves the values that the backward pass reads from a layer's forward pass to host memory while
// the next layer is computed, and fetches them one layer before they are read, so that each
// transfer overlaps with a layer. Values of the last layer stay, since the backward pass begins
// with it. Statistics (one number for each row of numbers) stay too: they are small.
#include "ir/op.h"
#include "passes/passes.h"

typedef struct offloading {
    graph *g;
    node_list old; // the nodes before the pass
    int n_tensors; // before the pass
    // By tensor id: the first backward node that reads it, -1: none; its copies on the host and
    // back on the device; the next tensor that is fetched before the same node, -1: none.
    int *reader;
    tensor **host, **back;
    int *next;
    int *fetch; // by node: the first tensor that is fetched before it; -1: none
    int *begin; // by layer: the first node of its backward pass; -1: none
    int n_layers;
    // Values of the current layer, stored at the end of the next one, and those of the layer
    // before.
    tensor **made, **stored;
    int n_made, n_stored;
} offloading;

static int *filled(arena *a, int n) {
    int *x = ARENA_ARRAY(a, int, n + 1);
    for (int i = 0; i <= n; i++)
        x[i] = -1;
    return x;
}

static bool is_kept(const tensor *t) {
    const node *n = t->def;
    if (!n || n->phase != PHASE_FORWARD || n->layer < 0) return false;
    if (t->cls != TENSOR_TEMP || tensor_root(t)->cls != TENSOR_TEMP) return false;
    for (int o = n->n_out - op_rows[n->op]->n_statistics; o < n->n_out; o++)
        if (t == n->out[o]) return false;
    return true;
}

static void find_readers(offloading *p) {
    for (int i = 0; i < p->old.n; i++)
        if (p->old.nodes[i]->layer >= p->n_layers) p->n_layers = p->old.nodes[i]->layer + 1;
    p->begin = filled(p->g->a, p->n_layers);
    for (int i = 0; i < p->old.n; i++) {
        const node *n = p->old.nodes[i];
        if (n->phase != PHASE_BACKWARD) continue;
        if (n->layer >= 0 && p->begin[n->layer] < 0) p->begin[n->layer] = i;
        for (int k = 0; k < n->n_in; k++)
            if (is_kept(n->in[k]) && p->reader[n->in[k]->id] < 0) p->reader[n->in[k]->id] = i;
    }
}

static bool is_moved(const offloading *p, const tensor *t) {
    if (t->id >= p->n_tensors || p->reader[t->id] < 0) return false;
    const int layer = p->old.nodes[p->reader[t->id]]->layer;
    return layer >= 0 && layer < p->n_layers - 1;
}

static void choose_fetches(offloading *p) {
    for (int id = p->n_tensors - 1; id >= 0; id--) {
        if (!is_moved(p, p->g->tensors[id])) continue;
        const int reader = p->reader[id], before = p->begin[p->old.nodes[reader]->layer + 1];
        const int at = before >= 0 && before < reader ? before : reader;
        p->next[id] = p->fetch[at];
        p->fetch[at] = id;
    }
}

static tensor *move(offloading *p, op_kind op, int n_in, tensor **in, const node *beside) {
    p->g->layer = beside->layer;
    p->g->phase = beside->phase;
    return graph_add(p->g, op, n_in, in, NULL)->out[0];
}

// At the end of a layer, stores the values of the layer before.
static void end_layer(offloading *p) {
    for (int i = 0; i < p->n_stored; i++)
        p->host[p->stored[i]->id] =
                move(p, OP_to_host, 1, &p->stored[i], p->g->nodes[p->g->n_nodes - 1]);
    tensor **emptied = p->stored;
    p->stored = p->made;
    p->n_stored = p->n_made;
    p->made = emptied;
    p->n_made = 0;
}

// Returns the gradient that a backward node waits for; that of a barrier is its second input.
static tensor *gradient_of(const node *n) {
    return n->in[n->op == OP_barrier];
}

static void read_fetched(offloading *p, node *n) {
    for (int k = 0; k < n->n_in; k++) {
        tensor *t = n->in[k];
        if (!is_moved(p, t)) continue;
        n->in[k] = p->back[t->id];
        for (int o = 0; o < n->n_out; o++)
            if (n->out[o]->alias == t) n->out[o]->alias = n->in[k];
    }
}

void pass_offload(graph *whole) {
    DRV_ASSERT(whole->stage == STAGE_DIFFERENTIATED, "offload in graph %s", whole->name);
    offloading all = {.g = whole,
            .old = graph_take_nodes(whole),
            .n_tensors = whole->n_tensors,
            .reader = filled(whole->a, whole->n_tensors),
            .next = filled(whole->a, whole->n_tensors),
            .host = ARENA_ARRAY(whole->a, tensor *, whole->n_tensors),
            .back = ARENA_ARRAY(whole->a, tensor *, whole->n_tensors),
            .made = ARENA_ARRAY(whole->a, tensor *, whole->n_tensors),
            .stored = ARENA_ARRAY(whole->a, tensor *, whole->n_tensors)};
    all.fetch = filled(whole->a, all.old.n);
    find_readers(&all);
    choose_fetches(&all);
    for (int i = 0; i < all.old.n; i++) {
        node *n = all.old.nodes[i], *last = i > 0 ? all.old.nodes[i - 1] : n;
        if (n->layer != last->layer || n->phase != last->phase) end_layer(&all);
        for (int id = all.fetch[i]; id >= 0; id = all.next[id])
            all.back[id] =
                    move(&all, OP_from_host, 2, (tensor *[]){all.host[id], gradient_of(n)}, n);
        if (n->phase == PHASE_BACKWARD) read_fetched(&all, n);
        graph_append(whole, n);
        for (int o = 0; o < n->n_out; o++)
            if (is_moved(&all, n->out[o])) all.made[all.n_made++] = n->out[o];
    }
    graph_leave_layers(whole);
}
