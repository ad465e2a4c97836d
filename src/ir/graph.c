// Builds graphs: tensors, state, nodes; removes what is not needed.
#include "ir/graph.h"

#include <string.h>

#include "ir/op.h"

graph *graph_new(arena *a, const char *name) {
    graph *g = ARENA_NEW(a, graph);
    g->a = a;
    g->name = name;
    g->layer = -1;
    g->mesh = mesh_single();
    g->row_blocks = g->partial_sums = 1;
    g->names.a = a;
    return g;
}

static tensor *new_tensor(graph *g, dtype dt, int n_dims, const int64_t *dim) {
    DRV_ASSERT(n_dims >= 1 && n_dims <= MAX_DIMS, "%d dims", n_dims);
    tensor *t = ARENA_NEW(g->a, tensor);
    t->id = g->n_tensors;
    t->dt = dt;
    t->n_dims = n_dims;
    t->n_slots = 1;
    for (int i = 0; i < n_dims; i++)
        t->dim[i] = dim[i];
    ARENA_GROW(g->a, g->tensors, g->n_tensors, g->cap_tensors);
    g->tensors[g->n_tensors++] = t;
    return t;
}

tensor *graph_state(graph *g, tensor_class cls, const char *name, dtype dt, int n_dims,
        const int64_t *dim) {
    DRV_ASSERT(cls != TENSOR_TEMP && name, "state needs a class and a name");
    DRV_ASSERT(!graph_find(g, name), "\"%s\" is in graph \"%s\" already", name, g->name);
    tensor *t = new_tensor(g, dt, n_dims, dim);
    t->name = arena_strdup(g->a, name);
    t->cls = cls;
    t->trainable = cls == TENSOR_WEIGHT;
    name_map_set(&g->names, t->name, t);
    return t;
}

tensor *graph_accumulator(graph *g, const char *name, const tensor *w) {
    const int outer = g->row_blocks > 1;
    int64_t dim[MAX_DIMS] = {g->row_blocks};
    DRV_ASSERT(w->n_dims + outer <= MAX_DIMS, "%s has %d dims", name, w->n_dims);
    memcpy(dim + outer, w->dim, sizeof *dim * (size_t)w->n_dims);
    return graph_state(g, TENSOR_GRAD, name, dtype_acc(w->dt), w->n_dims + outer, dim);
}

tensor *graph_find(const graph *g, const char *name) {
    return name_map_get(&g->names, name);
}

node *graph_make(graph *self, op_kind op, int n_in, tensor *const *in, const op_attrs *attrs) {
    const op_row *row = op_rows[op];
    DRV_ASSERT(n_in == row->n_in || (n_in > row->n_in && (n_in <= row->max_in || row->max_in < 0)),
            "%s: %d inputs", op_name(op), n_in);
    node *made = ARENA_NEW(self->a, node);
    made->op = op;
    made->n_in = n_in;
    made->in = ARENA_ARRAY(self->a, tensor *, n_in);
    for (int i = 0; i < n_in; i++)
        made->in[i] = in[i];
    if (attrs) made->attrs = *attrs;
    made->layer = self->layer;
    made->phase = self->phase;
    tensor_spec spec[MAX_OUT];
    const char *bad = op_outputs(made, spec, &made->n_out);
    if (!bad) bad = op_attrs_unlisted(made);
    DRV_ASSERT(!bad, "graph \"%s\": %s: %s", self->name, op_name(op), bad);
    for (int i = 0; i < made->n_out; i++) {
        made->out[i] = new_tensor(self, spec[i].dt, spec[i].n_dims, spec[i].dim);
        made->out[i]->def = made;
        if (spec[i].alias_in >= 0 && !spec[i].may_alias) made->out[i]->alias = in[spec[i].alias_in];
    }
    return made;
}

void graph_append(graph *g, node *n) {
    ARENA_GROW(g->a, g->nodes, g->n_nodes, g->cap_nodes);
    g->nodes[g->n_nodes++] = n;
}

node_list graph_take_nodes(graph *g) {
    const node_list taken = {g->nodes, g->n_nodes};
    g->nodes = NULL;
    g->n_nodes = g->cap_nodes = 0;
    return taken;
}

void graph_leave_layers(graph *g) {
    g->layer = -1;
    g->phase = PHASE_FORWARD;
}

node *graph_add(graph *g, op_kind op, int n_in, tensor *const *in, const op_attrs *attrs) {
    node *n = graph_make(g, op, n_in, in, attrs);
    graph_append(g, n);
    return n;
}

void graph_output(graph *g, tensor *t, const char *name) {
    DRV_ASSERT(t->cls == TENSOR_TEMP, "%s is state already", name);
    DRV_ASSERT(!graph_find(g, name), "\"%s\" is in graph \"%s\" already", name, g->name);
    t->cls = TENSOR_OUTPUT;
    t->name = name;
    name_map_set(&g->names, name, t);
}

void graph_move_output(graph *g, tensor *from, tensor *to) {
    DRV_ASSERT(from->cls == TENSOR_OUTPUT && to->cls == TENSOR_TEMP, "%%%d to %%%d", from->id,
            to->id);
    to->cls = TENSOR_OUTPUT;
    to->name = from->name;
    from->cls = TENSOR_TEMP;
    from->name = NULL;
    name_map_set(&g->names, to->name, to);
}

int64_t tensor_elements(const tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= t->dim[i];
    return n;
}

int64_t tensor_bytes(const tensor *t) {
    const block_matrix *blocks = tensor_blocks(t);
    return blocks ? block_matrix_bytes(blocks) : tensor_elements(t) * dtype_bytes(t->dt);
}

const block_matrix *tensor_blocks(const tensor *t) {
    return tensor_root(t)->blocks;
}

const tensor *tensor_root(const tensor *t) {
    while (t->alias)
        t = t->alias;
    return t;
}

// Returns whether a node or the host reads one of its results, or it changes state.
static bool is_needed(const node *n, const bool *used) {
    const bool writes = !op_rows[n->op]->renames;
    for (int o = 0; o < n->n_out; o++) {
        const tensor *t = n->out[o];
        if (used[t->id] || t->cls != TENSOR_TEMP) return true;
        if (writes && tensor_root(t)->cls != TENSOR_TEMP) return true;
    }
    return false;
}

void graph_prune(graph *g) {
    bool *used = ARENA_ARRAY(g->a, bool, g->n_tensors);
    int kept = g->n_nodes;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        node *n = g->nodes[i];
        if (!is_needed(n, used)) continue;
        for (int k = 0; k < n->n_in; k++)
            used[n->in[k]->id] = true;
        g->nodes[--kept] = n;
    }
    memmove(g->nodes, g->nodes + kept, sizeof *g->nodes * (size_t)(g->n_nodes - kept));
    g->n_nodes -= kept;
}
