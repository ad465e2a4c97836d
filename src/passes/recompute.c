// Replaces what the backward pass reads from dropped forward nodes by copies of those nodes, placed
// right before the first reader. The copies see their inputs through barriers.
#include <string.h>

#include "ir/op.h"
#include "passes/passes.h"

typedef struct recompute_pass {
    graph *g;
    recompute_policy policy;
    node **out; // the new order
    int n_out, cap_out;
    tensor **again; // by tensor id: its recomputed copy
    int n_tensors;
    tensor *dep; // gradient that the current region serves
} recompute_pass;

static void emit(recompute_pass *p, node *n) {
    if (p->n_out == p->cap_out) {
        int cap = p->cap_out ? 2 * p->cap_out : 1024;
        node **list = ARENA_ARRAY(p->g->a, node *, cap);
        if (p->n_out) memcpy(list, p->out, sizeof *list * (size_t)p->n_out);
        p->out = list;
        p->cap_out = cap;
    }
    p->out[p->n_out++] = n;
}

static bool dropped(const recompute_pass *p, const tensor *t) {
    const node *n = t->def;
    if (!n || n->phase != PHASE_FORWARD || n->layer < 0 || t->cls != TENSOR_TEMP) return false;
    bool stream = n->op == OP_add_rmsnorm && t == n->out[0]; // the residual stream is always kept
    if (p->policy == KEEP_STREAM) return !stream;
    return !stream && (n->op == OP_rmsnorm || n->op == OP_add_rmsnorm || n->op == OP_swiglu ||
                              n->op == OP_attention);
}

static tensor *recomputed(recompute_pass *p, tensor *t);

static tensor *guarded(recompute_pass *p, tensor *t) {
    if (!t->def || t->id >= p->n_tensors) return t; // state, or made in this region
    if (p->again[t->id]) return p->again[t->id];
    node *b = graph_make(p->g, OP_barrier, 2, (tensor *[]){t, p->dep}, NULL);
    emit(p, b);
    return p->again[t->id] = b->out[0];
}

static void clone(recompute_pass *p, node *n) {
    graph *g = p->g;
    g->layer = n->layer;
    g->phase = PHASE_BACKWARD;
    const op_row *row = op_rows[n->op];
    node *k;
    int first = 0;
    if (row->recompute) { // output 0 was kept, the others follow from it
        k = row->recompute(g, n, n->in);
        for (int i = 0; i < k->n_in; i++)
            k->in[i] = guarded(p, k->in[i]);
        first = 1;
    } else {
        tensor **in = ARENA_ARRAY(g->a, tensor *, n->n_in);
        for (int i = 0; i < n->n_in; i++)
            in[i] = dropped(p, n->in[i]) ? recomputed(p, n->in[i]) : guarded(p, n->in[i]);
        k = graph_make(g, n->op, n->n_in, in, &n->attrs);
    }
    k->recomputed = true;
    emit(p, k);
    for (int o = first; o < n->n_out; o++)
        p->again[n->out[o]->id] = k->out[o - first];
}

static tensor *recomputed(recompute_pass *p, tensor *t) {
    if (!p->again[t->id]) clone(p, t->def);
    return p->again[t->id];
}

void pass_recompute(graph *g, recompute_policy policy) {
    DRV_ASSERT(g->stage == STAGE_DIFFERENTIATED, "recompute in graph %s", g->name);
    if (policy == KEEP_ALL) return;
    recompute_pass p = {.g = g, .policy = policy, .n_tensors = g->n_tensors};
    p.again = ARENA_ARRAY(g->a, tensor *, g->n_tensors);
    for (int i = 0; i < g->n_nodes; i++) {
        node *n = g->nodes[i];
        if (n->phase == PHASE_BACKWARD) {
            p.dep = n->in[0];
            for (int k = 0; k < n->n_in; k++)
                if (dropped(&p, n->in[k])) n->in[k] = recomputed(&p, n->in[k]);
        }
        emit(&p, n);
    }
    g->nodes = p.out;
    g->n_nodes = p.n_out;
    g->cap_nodes = p.cap_out;
    g->phase = PHASE_FORWARD;
    g->layer = -1;
    graph_prune(g);
}
