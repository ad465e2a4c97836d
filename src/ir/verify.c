#include <stdlib.h>

#include "ir/op.h"

static drv_status check_node(const graph *g, int i, const bool *defined, const int *killed_at) {
    const node *n = g->nodes[i];
    const op_row *row = op_rows[n->op];
    for (int k = 0; k < n->n_in; k++) {
        const tensor *t = n->in[k];
        if (t->def && !defined[t->id])
            return drv_fail(DRV_E_DATA, "graph %s: node %d %s reads %%%d before it is defined",
                    g->name, i, row->name, t->id);
        if (killed_at[t->id] >= 0)
            return drv_fail(DRV_E_DATA,
                    "graph %s: node %d %s reads %%%d, which node %d has overwritten", g->name, i,
                    row->name, t->id, killed_at[t->id]);
    }
    tensor_spec spec[MAX_OUT];
    int n_out = 0;
    const char *bad = row->shape(n, spec, &n_out);
    if (bad) return drv_fail(DRV_E_DATA, "graph %s: node %d %s: %s", g->name, i, row->name, bad);
    bool same = n_out == n->n_out;
    for (int o = 0; same && o < n_out; o++) {
        const tensor *t = n->out[o];
        same = t->dt == spec[o].dt && t->n_dims == spec[o].n_dims;
        for (int d = 0; same && d < t->n_dims; d++)
            same = t->dim[d] == spec[o].dim[d];
        if (spec[o].alias_in >= 0 && !spec[o].may_alias)
            same = same && t->alias == n->in[spec[o].alias_in];
    }
    if (!same)
        return drv_fail(DRV_E_DATA, "graph %s: node %d %s: outputs do not follow the op's row",
                g->name, i, row->name);
    return DRV_OK;
}

static bool legal(const op_row *row, graph_stage stage) {
    return stage == STAGE_BUILT ? row->built : row->differentiated;
}

drv_status graph_verify(const graph *g, graph_stage stage) {
    bool *defined = calloc((size_t)g->n_tensors + 1, sizeof *defined);
    int *killed_at = mem_alloc(sizeof *killed_at * ((size_t)g->n_tensors + 1));
    for (int i = 0; i < g->n_tensors; i++)
        killed_at[i] = -1;
    drv_status s = DRV_OK;
    if (g->stage < stage)
        s = drv_fail(DRV_E_DATA, "graph %s has not reached stage %d", g->name, stage);
    for (int i = 0; s == DRV_OK && i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        s = check_node(g, i, defined, killed_at);
        if (s == DRV_OK && !legal(op_rows[n->op], stage))
            s = drv_fail(DRV_E_DATA, "graph %s: %s is not allowed at stage %d", g->name,
                    op_rows[n->op]->name, stage);
        for (int o = 0; s == DRV_OK && o < n->n_out; o++) {
            defined[n->out[o]->id] = true;
            // A barrier renames a value; every other in-place output changes it.
            if (n->out[o]->alias && n->op != OP_barrier) killed_at[n->out[o]->alias->id] = i;
        }
    }
    free(defined);
    free(killed_at);
    return s;
}
