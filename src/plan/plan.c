#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/round.h"
#include "ir/op.h"

typedef struct item { // something that needs bytes from `first` to `last`
    int64_t bytes, offset;
    int first, last, id;
} item;

// Who shares whose storage: required aliases always; allowed ones when the input is a temporary
// that nobody reads later.
static void find_storage(plan *p) {
    const graph *g = p->g;
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        p->storage[i] = t;
        p->first[i] = -1;
        p->last[i] = -1;
    }
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            p->last[n->in[k]->id] = i;
        for (int o = 0; o < n->n_out; o++)
            p->first[n->out[o]->id] = p->last[n->out[o]->id] = i;
    }
    // `last` of a storage covers all its tensors; built in program order.
    for (int i = 0; i < g->n_nodes; i++)
        for (int o = 0; o < g->nodes[i]->n_out; o++) {
            const tensor *t = g->nodes[i]->out[o];
            if (!t->alias) continue;
            const tensor *root = p->storage[t->alias->id];
            p->storage[t->id] = root;
            if (p->last[t->id] > p->last[root->id]) p->last[root->id] = p->last[t->id];
        }
}

static bool read_twice(const node *n, const tensor *t, int except) {
    for (int k = 0; k < n->n_in; k++)
        if (k != except && n->in[k] == t) return true;
    return false;
}

static void find_optional_aliases(plan *p) {
    const graph *g = p->g;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        tensor_spec spec[MAX_OUT];
        int n_out;
        op_rows[n->op]->shape(n, spec, &n_out);
        for (int o = 0; o < n_out; o++) {
            if (spec[o].alias_in < 0 || !spec[o].may_alias) continue;
            const tensor *t = n->out[o], *in = n->in[spec[o].alias_in];
            const tensor *root = p->storage[in->id];
            if (t->cls != TENSOR_TEMP || root->cls != TENSOR_TEMP || p->last[root->id] > i ||
                    tensor_bytes(root) != tensor_bytes(t) || read_twice(n, in, spec[o].alias_in))
                continue;
            // Others may already live in t's storage (required aliases of t).
            int last = p->last[t->id];
            for (int k = 0; k < g->n_tensors; k++)
                if (p->storage[k] == t) p->storage[k] = root;
            p->last[root->id] = last;
        }
    }
}

static int by_size(const void *x, const void *y) {
    const item *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->first != b->first ? a->first - b->first : a->id - b->id;
}

static int by_offset(const void *x, const void *y) {
    const item *a = *(item *const *)x, *b = *(item *const *)y;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

// Greedy by size: each item goes into the lowest gap between the items placed before it whose
// lifetimes overlap its own (arXiv:2001.03288, section 5.2).
static int64_t place(item *items, int n) {
    qsort(items, (size_t)n, sizeof *items, by_size);
    item **live = mem_alloc(sizeof *live * (size_t)(n + 1));
    int64_t end = 0;
    for (int i = 0; i < n; i++) {
        int n_live = 0;
        for (int k = 0; k < i; k++)
            if (items[k].first <= items[i].last && items[i].first <= items[k].last)
                live[n_live++] = &items[k];
        qsort(live, (size_t)n_live, sizeof *live, by_offset);
        int64_t at = 0;
        for (int k = 0; k < n_live && live[k]->offset - at < items[i].bytes; k++) {
            int64_t after = live[k]->offset + live[k]->bytes;
            if (after > at) at = after;
        }
        items[i].offset = at;
        if (at + items[i].bytes > end) end = at + items[i].bytes;
    }
    free(live);
    return end;
}

static void place_all(plan *p, arena *a, workspace_fn workspace, void *ctx) {
    const graph *g = p->g;
    item *items = ARENA_ARRAY(a, item, g->n_tensors + g->n_nodes);
    int n = 0;
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->cls != TENSOR_TEMP || !t->def || p->first[i] < 0 || p->storage[i] != t) continue;
        items[n++] = (item){round_up(tensor_bytes(t), PLAN_ALIGN), 0, p->first[i], p->last[i], i};
    }
    for (int i = 0; i < g->n_nodes; i++) {
        int64_t bytes = workspace ? round_up(workspace(ctx, g->nodes[i]), PLAN_ALIGN) : 0;
        if (bytes > p->workspace_peak) p->workspace_peak = bytes;
        if (bytes) items[n++] = (item){bytes, 0, i, i, g->n_tensors + i};
    }
    p->arena_bytes = place(items, n);
    for (int i = 0; i < n; i++) {
        if (items[i].id < g->n_tensors)
            p->offset[items[i].id] = items[i].offset;
        else
            p->workspace[items[i].id - g->n_tensors] = items[i].offset;
    }
    for (int i = 0; i < g->n_tensors; i++)
        p->offset[i] = p->offset[p->storage[i]->id];
}

plan *plan_make(arena *a, graph *g, workspace_fn workspace, void *ctx) {
    plan *p = ARENA_NEW(a, plan);
    p->g = g;
    p->offset = ARENA_ARRAY(a, int64_t, g->n_tensors);
    p->first = ARENA_ARRAY(a, int, g->n_tensors);
    p->last = ARENA_ARRAY(a, int, g->n_tensors);
    p->storage = ARENA_ARRAY(a, const tensor *, g->n_tensors);
    p->workspace = ARENA_ARRAY(a, int64_t, g->n_nodes);
    for (int i = 0; i < g->n_tensors; i++)
        p->offset[i] = -1;
    find_storage(p);
    find_optional_aliases(p);
    place_all(p, a, workspace, ctx);
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        bool used = p->first[i] >= 0 || p->last[i] >= 0;
        if (t->cls != TENSOR_TEMP && !t->alias && used) p->class_bytes[t->cls] += tensor_bytes(t);
    }
    for (int i = 0; i < g->n_nodes; i++) {
        const op_row *row = op_rows[g->nodes[i]->op];
        if (row->flops) p->flops += row->flops(g->nodes[i]);
    }
    g->stage = STAGE_PLANNED;
    return p;
}
