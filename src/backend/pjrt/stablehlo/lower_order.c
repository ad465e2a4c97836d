// Makes a program keep the order of its graph at some points. A compiler may compute a value as
// soon as its inputs exist, and keep it: XLA delays products of weight gradients, which nothing
// needs until the update, and reuses heads that the forward pass has cut instead of cutting them
// again in the backward pass. Both cost memory that is not in the plan
// (bench/results/2026-11-22-pjrt.md). So in training graphs all values that cross the border of a
// layer wait for each other: the forward pass keeps only what the graph keeps, and the gradients of
// a layer are added before the next layer begins.
#include "backend/pjrt/stablehlo/lower.h"
#include "ir/op.h"

static bool is_sum_of_gradients(const tensor *t) {
    return t->alias && tensor_root(t)->cls == TENSOR_GRAD;
}

static bool trains(const graph *g) {
    for (int i = 0; i < g->n_nodes; i++)
        for (int o = 0; o < g->nodes[i]->n_out; o++)
            if (is_sum_of_gradients(g->nodes[i]->out[o]) && g->nodes[i]->phase != PHASE_UPDATE)
                return true;
    return false;
}

void lower_note_reads(lowering *l) {
    const graph *g = l->g;
    l->last_read = ARENA_ARRAY(g->a, int, g->n_tensors);
    l->has_fences = trains(g);
    for (int i = 0; i < g->n_tensors; i++)
        l->last_read[i] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            l->last_read[g->nodes[i]->in[k]->id] = i;
}

// Returns whether a value from before the fence is read after it, or is a result of the program.
static bool crosses(const lowering *l, const tensor *t, int end) {
    return l->last_read[t->id] >= end || (is_sum_of_gradients(t) && l->last_read[t->id] < 0);
}

void lower_fence(lowering *l, int first, int end) {
    const graph *g = l->g;
    int n = 0, n_most = (end - first) * MAX_OUT;
    if (!l->has_fences) return;
    hlo_value *values = ARENA_ARRAY(g->a, hlo_value, n_most);
    int *of = ARENA_ARRAY(g->a, int, n_most);
    for (int i = first; i < end; i++)
        for (int o = 0; o < g->nodes[i]->n_out; o++) {
            const tensor *t = g->nodes[i]->out[o];
            if (!crosses(l, t, end)) continue;
            of[n] = t->id;
            values[n++] = l->values[t->id];
        }
    if (n == 0) return;
    hlo_barrier_all(&l->h, values, n);
    for (int i = 0; i < n; i++)
        l->values[of[i]] = values[i];
}
