// Reverse-mode differentiation: one walk that knows no op. The rules are in the op rows.
#include <string.h>

#include "ir/op.h"
#include "passes/passes.h"

static bool wants_grad(const grad_ctx *c, const node *n) {
    for (int o = 0; o < n->n_out; o++)
        if (c->d[n->out[o]->id]) return true;
    return false;
}

void pass_autodiff(graph *g, const char *loss) {
    DRV_ASSERT(g->stage == STAGE_BUILT, "autodiff of graph %s", g->name);
    const int n_forward = g->n_nodes, n_tensors = g->n_tensors;
    tensor *l = graph_find(g, loss);
    DRV_ASSERT(l, "graph %s has no output \"%s\"", g->name, loss);
    grad_ctx c = {.g = g, .n = n_tensors};
    c.d = ARENA_ARRAY(g->a, tensor *, n_tensors);
    c.buffer = ARENA_ARRAY(g->a, tensor *, n_tensors);
    for (int i = 0; i < n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->cls != TENSOR_WEIGHT) continue;
        char *name = arena_printf(g->a, "grad.%s", t->name);
        c.buffer[i] = graph_state(g, TENSOR_GRAD, name, dtype_acc(t->dt), t->n_dims, t->dim);
    }
    g->phase = PHASE_BACKWARD;
    c.d[l->id] = graph_state(g, TENSOR_INPUT, "dloss", DT_F64, 1, (int64_t[]){1});
    for (int i = n_forward - 1; i >= 0; i--) {
        node *n = g->nodes[i];
        if (!wants_grad(&c, n)) continue;
        const op_row *row = op_rows[n->op];
        DRV_ASSERT(row->grad, "%s has no gradient", row->name);
        g->layer = n->layer;
        row->grad(&c, n);
    }
    g->phase = PHASE_FORWARD;
    g->layer = -1;
    graph_prune(g);
    g->stage = STAGE_DIFFERENTIATED;
}
