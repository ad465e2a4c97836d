// The bookkeeping of differentiation: gradients and accumulators by tensor.
#include "ir/grad.h"
#include "ir/token_sums.h"
#include "ir/wire.h"

// Returns the accumulator of a weight. Each use of a tied table has its own, so that the sums are
// those of a pipeline, where the two uses are on different ranks (docs/adr/0011).
static tensor *new_accumulator(graph *g, const tensor *t) {
    const tensor *w = tensor_root(t);
    const bool renamed = t != w && op_rows[t->def->op]->renames;
    if (w->cls != TENSOR_WEIGHT || !w->trainable || (t != w && !renamed)) return NULL;
    const char *name = arena_printf(g->a, renamed ? "grad.%s.second" : "grad.%s", w->name);
    return graph_accumulator(g, name, w);
}

// An output is wanted if an input of its node is; integers have no gradient.
static void mark_wanted(grad_ctx *ctx) {
    for (int i = 0; i < ctx->n; i++) {
        const tensor *t = ctx->g->tensors[i];
        ctx->wanted[i] = t->trainable;
    }
    for (int i = 0; i < ctx->g->n_nodes; i++) {
        const node *n = ctx->g->nodes[i];
        bool any = false;
        for (int k = 0; k < n->n_in; k++)
            any |= ctx->wanted[n->in[k]->id];
        for (int o = 0; o < n->n_out - op_rows[n->op]->n_statistics; o++)
            ctx->wanted[n->out[o]->id] = any;
    }
}

grad_ctx grad_open(graph *g) {
    const int n = g->n_tensors;
    grad_ctx ctx = {.g = g,
            .n = n,
            .wanted = ARENA_ARRAY(g->a, bool, n),
            .d = ARENA_ARRAY(g->a, tensor *, n),
            .buffer = ARENA_ARRAY(g->a, tensor *, n),
            .replaced = ARENA_ARRAY(g->a, tensor *, n)};
    mark_wanted(&ctx);
    for (int i = 0; i < n; i++)
        ctx.buffer[i] = new_accumulator(g, g->tensors[i]);
    return ctx;
}

void grad_close(grad_ctx *ctx) {
    graph *g = ctx->g;
    for (int i = 0; i < g->n_nodes; i++) {
        node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            const int id = n->in[k]->id;
            if (id < ctx->n && ctx->replaced[id]) n->in[k] = ctx->replaced[id];
        }
    }
    for (int i = 0; i < ctx->n; i++)
        if (ctx->replaced[i] && g->tensors[i]->cls == TENSOR_OUTPUT)
            graph_move_output(g, g->tensors[i], ctx->replaced[i]);
}

tensor *grad_of(const grad_ctx *ctx, const tensor *t) {
    return t->id < ctx->n ? ctx->d[t->id] : NULL;
}

bool grad_wanted(const grad_ctx *ctx, const tensor *t) {
    return t->id < ctx->n && ctx->wanted[t->id];
}

void grad_add(grad_ctx *ctx, const tensor *t, tensor *d) {
    DRV_ASSERT(t->id < ctx->n, "gradient of a tensor made by autodiff");
    DRV_ASSERT(same_shape(t, d), "gradient of %%%d has another shape", t->id);
    if (!ctx->wanted[t->id]) return;
    if (ctx->d[t->id]) {
        tensor *in[] = {ctx->d[t->id], d};
        d = graph_add(ctx->g, OP_add, 2, in, NULL)->out[0];
    }
    ctx->d[t->id] = d;
}

void grad_put(grad_ctx *ctx, const tensor *t, tensor *d) {
    DRV_ASSERT(grad_wanted(ctx, t) && same_shape(t, d), "gradient of %%%d", t->id);
    ctx->d[t->id] = d;
}

tensor *grad_buffer(const grad_ctx *ctx, const tensor *t) {
    return t->id < ctx->n ? ctx->buffer[t->id] : NULL;
}

int grad_row_blocks(const grad_ctx *ctx) {
    return ctx->g->row_blocks > 1 ? ctx->g->row_blocks : 0;
}

int grad_partial_sums(const grad_ctx *ctx) {
    return ctx->g->partial_sums > 1 ? ctx->g->partial_sums : 0;
}

void grad_buffer_set(grad_ctx *ctx, const tensor *t, tensor *updated) {
    DRV_ASSERT(grad_buffer(ctx, t), "%%%d has no accumulator", t->id);
    ctx->buffer[t->id] = updated;
}

op_attrs grad_tokens(const grad_ctx *ctx, const node *n, op_attrs attrs) {
    attrs.sum.row_blocks = grad_row_blocks(ctx);
    attrs.sum.partial_sums = grad_partial_sums(ctx);
    attrs.sum.blocks = n->attrs.sum.dw_blocks;
    if (n->attrs.sum.dw_ranks <= 1) return attrs;
    attrs.mesh.axis = n->attrs.mesh.axis;
    attrs.mesh.ranks = n->attrs.sum.dw_ranks;
    return attrs;
}

double wire_of_tokens(const op_attrs *attrs, const tensor *accumulator) {
    const double bytes = (double)tensor_bytes(accumulator) / row_blocks_of(attrs);
    if (attrs->mesh.ranks <= 1) return 0;
    if (!tells_runs(attrs)) return wire_all_reduce(bytes, attrs->mesh.ranks);
    return wire_gather(bytes * (double)(runs_of_rank(attrs) / runs_joined_here(attrs)),
            attrs->mesh.ranks);
}

void grad_replace(grad_ctx *ctx, const tensor *old, tensor *with) {
    DRV_ASSERT(old->id < ctx->n && !ctx->replaced[old->id], "%%%d is replaced twice", old->id);
    ctx->replaced[old->id] = with;
}
