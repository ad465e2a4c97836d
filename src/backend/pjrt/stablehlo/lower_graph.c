// Prints a graph as a program. If stages of a pipeline exchange values within it (the norm, the
// gradient of a tied table), it becomes several programs, since ranks of different stages run
// different programs and can exchange values only between them (docs/adr/0025).
#include "backend/pjrt/stablehlo/lower.h"
#include "ir/op.h"

typedef struct graph_cut {
    arena *a;
    const graph *g;
    int *made_in;        // by tensor id: the node; -1: none
    bool *needed;        // by tensor id: an argument of the current part
    const tensor **last; // by tensor id: the last value of a state in the current part
    const tensor **results;
    lowering l;
    lowered *out;
    int first, end; // nodes of the part
} graph_cut;

// --- parts
static bool goes_along_pipeline(const graph_cut *c, const node *n) {
    return c->g->mesh.size[AXIS_PIPELINE] > 1 && n->attrs.mesh.axes >> AXIS_PIPELINE & 1;
}

// Returns the state that holds a value between programs: its own, or one made for this purpose.
static const tensor *holder_of(const tensor *t) {
    const tensor *root = tensor_root(t);
    return root->cls == TENSOR_TEMP ? t : root;
}

static const char *held_name(const graph_cut *c, const tensor *t) {
    const tensor *holder = holder_of(t);
    return holder->cls == TENSOR_TEMP
                   ? arena_printf(c->a, LOWERED_TEMPORARY "%s.%d", c->g->name, holder->id)
                   : holder->name;
}

// A part ends before a node that sums over the ends of the pipeline, and after a node that sums
// over the whole pipeline.
static void find_end(graph_cut *c) {
    const node *begin = c->g->nodes[c->first];
    if (begin->attrs.mesh.ends)
        c->out->before = (lowered_exchange){EXCHANGE_ENDS, held_name(c, begin->in[0])};
    for (c->end = c->first; c->end < c->g->n_nodes; c->end++) {
        const node *n = c->g->nodes[c->end];
        if (n->attrs.mesh.ends && c->end > c->first) return;
        if (!goes_along_pipeline(c, n)) continue;
        c->out->after = (lowered_exchange){EXCHANGE_PIPELINE, held_name(c, n->out[0])};
        c->end++;
        return;
    }
}

// --- the signature of a part
static bool is_from_before(const graph_cut *c, const tensor *t) {
    return c->made_in[t->id] < c->first;
}

static void find_use(graph_cut *c) {
    const graph *g = c->g;
    c->needed = ARENA_ARRAY(c->a, bool, g->n_tensors);
    c->last = lower_state_use(c->a, g, c->first, c->end).last;
    for (int i = c->first; i < c->end; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            if (is_from_before(c, n->in[k])) c->needed[holder_of(n->in[k])->id] = true;
    }
}

static lowered_state held_state(const graph_cut *c, const tensor *t, int alias) {
    lowered_state s = lower_state(&c->l, t, alias);
    s.name = held_name(c, t);
    return s;
}

static void add_result(graph_cut *c, const tensor *t, lowered_state s) {
    c->results[c->out->n_out] = t;
    c->out->out[c->out->n_out++] = s;
}

static void add_arguments(graph_cut *c) {
    lowered *out = c->out;
    const graph *g = c->g;
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (!c->needed[i]) continue;
        c->l.values[i] = hlo_new(&c->l.h, lower_type(&c->l, t->dt), t->n_dims, t->dim);
        if (c->last[i]) add_result(c, c->last[i], held_state(c, t, out->n_in));
        out->in[out->n_in++] = held_state(c, t, -1);
    }
    for (int i = c->first; i < c->end; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            if (is_from_before(c, n->in[k]))
                c->l.values[n->in[k]->id] = c->l.values[holder_of(n->in[k])->id];
    }
}

// Adds new results: state, and values that later parts read.
static void add_made(graph_cut *c) {
    for (int i = 0; i < c->g->n_tensors; i++) {
        const tensor *t = c->g->tensors[i];
        const bool made_here = c->made_in[i] >= c->first && c->made_in[i] < c->end,
                   is_state = t->cls != TENSOR_TEMP && !t->alias,
                   is_read = holder_of(t)->cls == TENSOR_TEMP && c->l.last_read[i] >= c->end;
        if (made_here && (is_state || is_read)) add_result(c, t, held_state(c, t, -1));
    }
}

// The results are the written state in the order of its arguments, then new values.
static void find_signature(graph_cut *c) {
    const int most = c->g->n_tensors;
    c->out->in = ARENA_ARRAY(c->a, lowered_state, most + 1);
    c->out->out = ARENA_ARRAY(c->a, lowered_state, most);
    c->results = ARENA_ARRAY(c->a, const tensor *, most);
    lower_add_places(&c->l, c->out);
    add_arguments(c);
    add_made(c);
}

// Gives values of state their own dims, since one that replaces another has only its elements.
static void shape_arguments(graph_cut *c) {
    for (int i = c->first; i < c->end; i++)
        for (int k = 0; k < c->g->nodes[i]->n_in; k++) {
            const tensor *t = c->g->nodes[i]->in[k];
            hlo_value *v = &c->l.values[t->id];
            if (is_from_before(c, t)) *v = hlo_reshape(&c->l.h, *v, t->n_dims, t->dim);
        }
}

static void shape_results(graph_cut *c, hlo_value *v) {
    for (int o = 0; o < c->out->n_out; o++) {
        const buffer_shape *shape = &c->out->out[o].shape;
        v[o] = hlo_reshape(&c->l.h, c->l.values[c->results[o]->id], shape->n_dims, shape->dim);
    }
}

// --- the whole
static void lower_part(graph_cut *c) {
    lowered *out = c->out;
    find_use(c);
    find_signature(c);
    lower_head(&c->l, out);
    shape_arguments(c);
    lower_nodes(&c->l, out, c->first, c->end);
    hlo_value *v = ARENA_ARRAY(c->a, hlo_value, out->n_out);
    shape_results(c, v);
    lower_results(&c->l, v, out->n_out);
    out->text = c->l.h.s;
}

static void find_makers(graph_cut *c) {
    const graph *g = c->g;
    c->made_in = ARENA_ARRAY(c->a, int, g->n_tensors);
    for (int i = 0; i < g->n_tensors; i++)
        c->made_in[i] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        for (int o = 0; o < g->nodes[i]->n_out; o++)
            c->made_in[g->nodes[i]->out[o]->id] = i;
}

drv_status lower_graph(arena *a, const graph *g, const lower_options *options, lowered *out) {
    graph_cut c = {.a = a, .g = g};
    find_makers(&c);
    c.out = out;
    for (int n_parts = 1; n_parts == 1 || c.end < g->n_nodes; n_parts++) {
        if (n_parts > 1) c.out = c.out->next = ARENA_NEW(a, lowered);
        *c.out = (lowered){.name = n_parts > 1 ? arena_printf(a, "%s.%d", g->name, n_parts)
                                               : g->name,
                .lines = ARENA_ARRAY(a, lowered_line, g->n_nodes)};
        c.first = c.end;
        DRV_TRY(lower_open(a, g, options, &c.l));
        if (g->n_nodes) find_end(&c);
        lower_part(&c);
    }
    return DRV_OK;
}
