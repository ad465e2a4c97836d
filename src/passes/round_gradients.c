// Sums of gradients in bf16 (docs/adr/0019): whatever an op adds to an accumulator it adds to zeros
// in fp32 instead, and the sum takes that in by stochastic rounding. No op knows of it.
#include <string.h>

#include "ir/op.h"
#include "passes/passes.h"

typedef struct accumulator {
    tensor *sum;   // the state, from now on in bf16
    int first;     // node that reads it before all others; -1: none
    tensor *added; // its last value
    int last;      // the node that makes that
} accumulator;

static void find_accumulators(const graph *g, accumulator *of) {
    for (int i = 0; i < g->n_tensors; i++)
        of[i] = (accumulator){.sum = g->tensors[i], .first = -1};
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            accumulator *a = &of[n->in[k]->id];
            if (a->first < 0) a->first = i;
        }
        for (int o = 0; o < n->n_out; o++) {
            accumulator *a = &of[tensor_root(n->out[o])->id];
            a->added = n->out[o];
            a->last = i;
        }
    }
}

static bool is_sum(const accumulator *a) {
    return a->sum->cls == TENSOR_GRAD && !a->sum->def && a->sum->dt == DT_F32 && a->first >= 0 &&
           a->added;
}

// "place.W" for "grad.W" and for "grad.W.second".
static tensor *place_of(graph *g, const char *grad) {
    static const char second[] = ".second";
    const char *weight = grad + strlen("grad.");
    const size_t n = strlen(weight) - (str_ends(weight, second) ? strlen(second) : 0);
    return pass_place(g, arena_printf(g->a, "%.*s", (int)n, weight));
}

// The first node adds to zeros instead.
static node *begin(graph *g, const accumulator *a) {
    node *first = g->nodes[a->first];
    g->layer = first->layer;
    g->phase = first->phase;
    tensor *sum = a->sum;
    node *zeros = graph_make(g, OP_zeros, 1, &sum, NULL);
    for (int k = 0; k < first->n_in; k++)
        if (first->in[k] == sum) first->in[k] = zeros->out[0];
    for (int o = 0; o < first->n_out; o++)
        if (first->out[o]->alias == sum) first->out[o]->alias = zeros->out[0];
    return zeros;
}

// Nodes that come right before and after each node of a graph, by its index.
typedef struct insertions {
    node **before, **after; // MAX_OUT for each
    int *n_before, *n_after;
} insertions;

static insertions insertions_new(arena *a, int n_nodes) {
    return (insertions){ARENA_ARRAY(a, node *, n_nodes * MAX_OUT),
            ARENA_ARRAY(a, node *, n_nodes * MAX_OUT), ARENA_ARRAY(a, int, n_nodes),
            ARENA_ARRAY(a, int, n_nodes)};
}

static void insert(graph *g, const insertions *list) {
    node **nodes = g->nodes;
    const int n_nodes = g->n_nodes;
    g->nodes = NULL;
    g->n_nodes = g->cap_nodes = 0;
    for (int i = 0; i < n_nodes; i++) {
        for (int k = 0; k < list->n_before[i]; k++)
            graph_append(g, list->before[i * MAX_OUT + k]);
        graph_append(g, nodes[i]);
        for (int k = 0; k < list->n_after[i]; k++)
            graph_append(g, list->after[i * MAX_OUT + k]);
    }
    g->layer = -1;
    g->phase = PHASE_FORWARD;
}

void pass_round_gradients(graph *g, const char *number, int n_slots) {
    const int n_tensors = g->n_tensors;
    arena *mem = g->a;
    accumulator *of = ARENA_ARRAY(mem, accumulator, n_tensors);
    const insertions list = insertions_new(mem, g->n_nodes);
    tensor *counter = NULL;
    find_accumulators(g, of);
    for (int i = 0; i < n_tensors; i++) {
        const accumulator *a = &of[i];
        if (!is_sum(a)) continue;
        if (!counter) counter = graph_state(g, TENSOR_INPUT, number, DT_I32, 1, (int64_t[]){2});
        counter->n_slots = n_slots;
        a->sum->dt = DT_BF16;
        list.before[a->first * MAX_OUT + list.n_before[a->first]++] = begin(g, a);
        tensor *in[] = {a->sum, a->added, place_of(g, a->sum->name), counter};
        list.after[a->last * MAX_OUT + list.n_after[a->last]++] =
                graph_make(g, OP_add_rounded, 4, in, NULL);
    }
    insert(g, &list);
}
