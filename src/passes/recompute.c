// Copies the dropped forward nodes whose values the backward pass reads, right before the first
// reader. The copies read their inputs through barriers, so that no compiler merges a copy with its
// original.
#include <string.h>

#include "ir/op.h"
#include "passes/passes.h"

typedef struct recompute_pass {
    graph *g;
    recompute_policy policy;
    tensor **again; // by tensor id: its recomputed copy, or its value after a barrier
    int n_tensors;  // before the pass: the length of `again`
    tensor *dep;    // gradient that the current region serves
} recompute_pass;

static bool is_dropped(const recompute_pass *p, const tensor *t) {
    const node *n = t->def;
    if (!n || n->phase != PHASE_FORWARD || n->layer < 0 || t->cls != TENSOR_TEMP) return false;
    const op_row *row = op_rows[n->op];
    for (int o = 0; o < row->n_kept; o++)
        if (t == n->out[o]) return false;
    if (p->policy == KEEP_SHARDS) return n->op == OP_all_gather;
    return p->policy == KEEP_STREAM || row->cheap;
}

static tensor *recomputed(recompute_pass *p, tensor *t);

// Returns the value of t behind a barrier that waits for p->dep. Tensors made by this pass already
// wait for it.
static tensor *guarded(recompute_pass *p, tensor *t) {
    if (t->id >= p->n_tensors) return t;
    if (p->again[t->id]) return p->again[t->id];
    const node *barrier = graph_add(p->g, OP_barrier, 2, (tensor *[]){t, p->dep}, NULL);
    return p->again[t->id] = barrier->out[0];
}

// Puts every value behind a barrier. State needs none unless it is the only input: a compiler could
// merge a node that reads only state with its original.
static void guard_inputs(recompute_pass *p, tensor **in, int n_in) {
    bool state_alone = n_in > 0;
    for (int k = 0; k < n_in; k++) {
        if (!in[k]->def) continue;
        in[k] = is_dropped(p, in[k]) ? recomputed(p, in[k]) : guarded(p, in[k]);
        state_alone = false;
    }
    if (state_alone) in[0] = guarded(p, in[0]);
}

static node *copy_of(recompute_pass *p, const node *n) {
    graph *g = p->g;
    if (op_rows[n->op]->remake) {
        node *copy = op_rows[n->op]->remake(g, n);
        guard_inputs(p, copy->in, copy->n_in);
        return copy;
    }
    tensor **in = ARENA_ARRAY(g->a, tensor *, n->n_in);
    memcpy(in, n->in, sizeof *in * (size_t)n->n_in);
    guard_inputs(p, in, n->n_in);
    return graph_make(g, n->op, n->n_in, in, &n->attrs);
}

static void clone(recompute_pass *p, const node *n) {
    p->g->layer = n->layer;
    p->g->phase = PHASE_BACKWARD;
    node *copy = copy_of(p, n);
    const int first = op_rows[n->op]->remake ? op_rows[n->op]->n_kept : 0;
    copy->recomputed = true;
    graph_append(p->g, copy);
    for (int o = first; o < n->n_out; o++)
        p->again[n->out[o]->id] = copy->out[o - first];
}

static tensor *recomputed(recompute_pass *p, tensor *t) {
    if (!p->again[t->id]) clone(p, t->def);
    return p->again[t->id];
}

// Makes a backward node read copies of dropped values, which are inserted right before it.
static void read_copies(recompute_pass *p, node *n) {
    p->dep = n->in[0];
    for (int k = 0; k < n->n_in; k++)
        if (is_dropped(p, n->in[k])) n->in[k] = recomputed(p, n->in[k]);
}

void pass_recompute(graph *g, recompute_policy policy) {
    DRV_ASSERT(g->stage == STAGE_DIFFERENTIATED, "recompute in graph %s", g->name);
    if (policy == KEEP_ALL) return;
    recompute_pass p = {.g = g, .policy = policy, .n_tensors = g->n_tensors};
    p.again = ARENA_ARRAY(g->a, tensor *, g->n_tensors);
    const node_list old = graph_take_nodes(g);
    for (int i = 0; i < old.n; i++) {
        if (old.nodes[i]->phase == PHASE_BACKWARD) read_copies(&p, old.nodes[i]);
        graph_append(g, old.nodes[i]);
    }
    graph_leave_layers(g);
    graph_prune(g);
}
