// The programs of accumulation groups: they move every gradient to a slot, or add the slot to it.
#include "passes/passes.h"

graph *pass_accum_group(arena *a, tensor *const *weights, int n, int slot, int row_blocks,
        bool put_aside, dtype grads) {
    graph *g = graph_new(a, arena_printf(a, "%s_%d", put_aside ? "put_aside" : "take_back", slot));
    g->phase = PHASE_UPDATE;
    g->row_blocks = row_blocks;
    for (int i = 0; i < n; i++) {
        const tensor *w = weights[i];
        const char *const names[] = {arena_printf(a, "grad.%s", w->name),
                arena_printf(a, "accum_group%d.%s", slot, w->name)};
        tensor *in[2];
        for (int k = 0; k < 2; k++)
            in[k] = pass_sum(g, names[k], w, grads);
        graph_add(g, put_aside ? OP_put_aside : OP_take_back, 2, in, NULL);
    }
    g->stage = STAGE_DIFFERENTIATED;
    return g;
}
