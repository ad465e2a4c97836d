// Reverse-mode differentiation is one walk that knows no op. The rules are in the op rows.
#include "ir/grad.h"
#include "passes/passes.h"

static bool has_gradient(const grad_ctx *ctx, const node *n) {
    for (int o = 0; o < n->n_out; o++)
        if (grad_of(ctx, n->out[o])) return true;
    return false;
}

// Appends the gradient of a forward node, in the layer of that node.
static void differentiate(grad_ctx *ctx, node *n) {
    const op_row *row = op_rows[n->op];
    DRV_ASSERT(row->grad, "%s has no gradient", op_name(n->op));
    ctx->g->layer = n->layer;
    row->grad(ctx, n);
}

// Turns the gradients of trainable inputs into outputs.
static void output_gradients(const grad_ctx *ctx) {
    graph *g = ctx->g;
    for (int i = 0; i < ctx->n; i++) {
        const tensor *t = g->tensors[i];
        if (t->cls != TENSOR_INPUT || !t->trainable) continue;
        DRV_ASSERT(ctx->d[i], "\"%s\" in graph %s has no gradient", t->name, g->name);
        graph_output(g, ctx->d[i], arena_printf(g->a, "d%s", t->name));
    }
}

void pass_autodiff(graph *g, const char *name) {
    DRV_ASSERT(g->stage == STAGE_BUILT, "autodiff of graph %s", g->name);
    const int n_forward = g->n_nodes;
    tensor *output = graph_find(g, name);
    DRV_ASSERT(output, "graph %s has no output \"%s\"", g->name, name);
    grad_ctx ctx = grad_open(g);
    DRV_ASSERT(grad_wanted(&ctx, output), "graph %s has nothing to train", g->name);
    g->phase = PHASE_BACKWARD;
    ctx.d[output->id] = graph_state(g, TENSOR_INPUT, arena_printf(g->a, "d%s", name), output->dt,
            output->n_dims, output->dim);
    for (int i = n_forward - 1; i >= 0; i--)
        if (has_gradient(&ctx, g->nodes[i])) differentiate(&ctx, g->nodes[i]);
    graph_leave_layers(g);
    output_gradients(&ctx);
    grad_close(&ctx);
    graph_prune(g);
    g->stage = STAGE_DIFFERENTIATED;
}
