// Finds when each value of both graphs is in memory; the nodes of the update run after those of the
// micro-batch. As XLA's buffer assignment does (openxla/xla, buffer_assignment.cc), it takes the
// largest value first, and puts it into the smallest weight that is free as long as the value
// lives, or else into the arena.
#include "backend/step_memory.h"

#include <stdlib.h>

#include "backend/cublas_memory.h"
#include "base/dtype.h"
#include "ir/op.h"
#include "plan/place.h"

// A weight that the update writes and does not read.
typedef struct free_weight {
    int64_t bytes;
    int read, written; // times: its last read in the micro-batch; when the update writes it
    place_item *in;    // values that are in its memory
    int n, cap;
} free_weight;

typedef struct step_values {
    arena *a;
    const plan *micro_batch, *update;
    int begin, n_times; // of the update; of both
    place_item *items;  // id: odd for a gradient
    int n_items;
    free_weight *weights; // the smallest first
    int n_weights;
} step_values;

static void add(step_values *v, int64_t bytes, int first, int last, bool is_gradient) {
    const int n = v->n_items;
    if (bytes > 0)
        v->items[v->n_items++] = (place_item){.bytes = bytes,
                .first = first,
                .last = last,
                .id = 2 * n + is_gradient};
}

// Adds the temporaries of a graph whose first node runs at time `begin`.
static void add_temporaries(step_values *v, const plan *p, int begin) {
    for (int i = 0; i < p->g->n_tensors; i++) {
        const tensor *t = p->g->tensors[i];
        if (t->cls != TENSOR_TEMP || p->first[i] < 0 || p->storage[i] != t) continue;
        if (!op_rows[t->def->op]->on_host)
            add(v, tensor_bytes(t), begin + p->first[i], begin + p->last[i], false);
    }
}

// Adds the scratch memory of nodes. The loss needs a chunk of logits in the type of sums, and their
// gradient in the type that products read; while it multiplies, only one of the two is in memory.
static void add_scratch(step_values *v, const cudnn_choice *how, bool cublas) {
    const plan *p = v->micro_batch;
    for (int i = 0; i < p->g->n_nodes; i++) {
        const node *n = p->g->nodes[i];
        int64_t rest = p->scratch_bytes[i];
        int last = i;
        if (OP_READS(n->op, vocabulary, chunk)) {
            const int64_t read = dtype_bytes(n->in[0]->dt),
                          sum = dtype_bytes(dtype_acc(n->in[0]->dt)),
                          gradient = rest / (read + sum) * read;
            add(v, gradient, i, i, false);
            rest -= gradient;
        } else if (cublas) {
            add(v, cublas_scratch_bytes(n), i, i, false);
        }
        add(v, rest, i, i, false);
        const int64_t mask = cudnn_mask_of(how, p->g, i, &last);
        add(v, mask, i, last, false);
    }
}

// Finds the first node that writes a state, and the last one that writes or reads it; -1: none.
static void find_uses(const plan *p, const tensor *state, int *first_write, int *last) {
    *first_write = -1;
    *last = p->last[state->id];
    for (int i = 0; i < p->g->n_tensors; i++) {
        if (p->storage[i] != state || p->first[i] < 0) continue;
        if (*first_write < 0 || p->first[i] < *first_write) *first_write = p->first[i];
        if (p->last[i] > *last) *last = p->last[i];
    }
}

// Adds each gradient. A gradient that no node writes is zeros, which are made when the update reads
// them. The embedding's gradient of a tied table is added to the head's in place.
static void add_gradients(step_values *v) {
    const graph *update = v->update->g;
    for (int i = 0; i < update->n_tensors; i++) {
        const tensor *grad = update->tensors[i];
        if (grad->cls != TENSOR_GRAD || grad->alias) continue;
        if (graph_find(update, arena_printf(v->a, "%s.second", grad->name))) continue;
        const tensor *made = graph_find(v->micro_batch->g, grad->name);
        int written = -1, read, unused, last;
        find_uses(v->update, grad, &unused, &last);
        if (made) find_uses(v->micro_batch, made, &written, &read);
        add(v, tensor_bytes(grad), written < 0 ? v->begin : written, v->begin + last, true);
    }
}

static int by_bytes(const void *x, const void *y) {
    const free_weight *a = x, *b = y;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static void list_weights(step_values *v) {
    const graph *update = v->update->g;
    for (int i = 0; i < update->n_tensors; i++) {
        const tensor *w = update->tensors[i];
        if (w->cls != TENSOR_WEIGHT || w->alias) continue;
        if (!graph_find(update, arena_printf(v->a, "master.%s", w->name))) continue;
        const tensor *read = graph_find(v->micro_batch->g, w->name);
        free_weight *one = &v->weights[v->n_weights++];
        int last;
        *one = (free_weight){.bytes = tensor_bytes(w),
                .read = read ? v->micro_batch->last[read->id] : -1};
        find_uses(v->update, w, &one->written, &last);
        one->written += v->begin;
    }
    qsort(v->weights, (size_t)v->n_weights, sizeof *v->weights, by_bytes);
}

static bool has_room(const free_weight *w, const place_item *item) {
    if (w->bytes < item->bytes || item->first <= w->read || item->last >= w->written) return false;
    for (int i = 0; i < w->n; i++)
        if (w->in[i].first <= item->last && item->first <= w->in[i].last) return false;
    return true;
}

static bool put_in_weight(step_values *v, const place_item *item) {
    for (int i = 0; i < v->n_weights; i++) {
        free_weight *w = &v->weights[i];
        if (!has_room(w, item)) continue;
        ARENA_GROW(v->a, w->in, w->n, w->cap);
        w->in[w->n++] = *item;
        return true;
    }
    return false;
}

// Orders values as XLA does: the largest first; of one size temporaries, then gradients in the
// order of the update, which is the post-order of the instructions from the program's results.
static int by_size(const void *x, const void *y) {
    const place_item *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    if (a->id % 2 != b->id % 2) return a->id % 2 - b->id % 2;
    const int order = a->id % 2 ? a->last - b->last : a->first - b->first;
    return order ? order : a->id - b->id;
}

// Returns the bytes of gradients at the time when most is in memory.
static int64_t gradients_at_peak(const step_values *v) {
    int64_t *change[2]; // by time: of gradients, of all
    int64_t sum[2] = {0}, most = 0, gradients = 0;
    for (int all = 0; all < 2; all++) {
        change[all] = ARENA_ARRAY(v->a, int64_t, v->n_times + 1);
        for (int i = 0; i < v->n_items; i++) {
            if (!all && v->items[i].id % 2 == 0) continue;
            change[all][v->items[i].first] += v->items[i].bytes;
            change[all][v->items[i].last + 1] -= v->items[i].bytes;
        }
    }
    for (int i = 0; i < v->n_times; i++) {
        sum[0] += change[0][i];
        sum[1] += change[1][i];
        if (sum[1] <= most) continue;
        most = sum[1];
        gradients = sum[0];
    }
    return gradients;
}

step_memory step_memory_of(const plan *micro_batch, const plan *update, const cudnn_choice *how,
        bool cublas) {
    arena *a = arena_new("a step");
    const graph *first = micro_batch->g, *then = update->g;
    enum { EACH_NODE = 3 }; // items of a node
    step_values both = {.a = a,
            .micro_batch = micro_batch,
            .update = update,
            .begin = first->n_nodes,
            .n_times = first->n_nodes + then->n_nodes,
            .items = ARENA_ARRAY(a, place_item,
                    first->n_tensors + then->n_tensors + EACH_NODE * first->n_nodes),
            .weights = ARENA_ARRAY(a, free_weight, then->n_tensors)};
    add_temporaries(&both, micro_batch, 0);
    add_temporaries(&both, update, both.begin);
    add_scratch(&both, how, cublas);
    add_gradients(&both);
    list_weights(&both);
    qsort(both.items, (size_t)both.n_items, sizeof *both.items, by_size);
    const int n_all = both.n_items;
    both.n_items = 0;
    for (int i = 0; i < n_all; i++)
        if (!put_in_weight(&both, &both.items[i])) both.items[both.n_items++] = both.items[i];
    const step_memory made = {.bytes = place_items(both.items, both.n_items, both.n_times, NULL),
            .gradients = gradients_at_peak(&both)};
    arena_free(a);
    return made;
}
