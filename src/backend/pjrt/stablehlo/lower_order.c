// Says where a program keeps the order of its graph. A compiler may compute anything as soon as
// what it reads is there, and keep what it has: XLA puts products of weight gradients off, since
// nobody waits for them until the update, and takes heads that the forward pass has cut for those
// that the backward pass cuts. Both cost memory that the plan knows nothing of
// (bench/results/2026-11-22-pjrt.md). So in graphs of training all that crosses the border of a
// layer waits for all else that does: what the forward pass keeps is what the graph keeps, and the
// gradients of a layer are added before the next one begins.
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

// Returns whether a value of a node in front of the fence is read after it, or left by the program.
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
