// Finds the accumulators of gradients and the last op that adds to each; replaces them by zeros.
#include "passes/accumulators.h"

#include <string.h>

#include "ir/op.h"

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
    return a->sum->cls == TENSOR_GRAD && !a->sum->def && a->first >= 0 && a->added;
}

// Returns W for "grad.W" and for "grad.W.second".
static tensor *weight_of(const graph *g, const char *grad) {
    static const char second[] = ".second";
    const char *weight = grad + strlen("grad.");
    const size_t n = strlen(weight) - (str_ends(weight, second) ? strlen(second) : 0);
    return graph_find(g, arena_printf(g->a, "%.*s", (int)n, weight));
}

tensor *slotted_input_of(graph *g, const slotted_input *input) {
    const program_input_row *row = &program_inputs[input->which];
    const int64_t n = row->alone;
    const char *name = arena_strdup(g->a, input_name_of(input->which, input->chunk).text);
    tensor *made = graph_find(g, name);
    if (made) return made;
    made = graph_state(g, TENSOR_INPUT, name, row->dt, 1, &n);
    made->n_slots = input->n_slots;
    return made;
}

// Gives new nodes the layer and the phase of n.
static void use_layer_of(graph *g, const node *n) {
    g->layer = n->layer;
    g->phase = n->phase;
}

// Lets the first node add to zeros instead of the accumulator.
static node *begin(graph *g, const accumulator *a) {
    node *first = g->nodes[a->first];
    const op_attrs attrs = {.sum.row_blocks = g->row_blocks > 1 ? g->row_blocks : 0,
            .whole = whole_of(a->weight, dtype_acc(a->weight->dt))};
    use_layer_of(g, first);
    tensor *sum = a->sum;
    node *zeros = graph_make(g, OP_zeros, 0, NULL, &attrs);
    for (int k = 0; k < first->n_in; k++)
        if (first->in[k] == sum) first->in[k] = zeros->out[0];
    for (int o = 0; o < first->n_out; o++)
        if (first->out[o]->alias == sum) first->out[o]->alias = zeros->out[0];
    return zeros;
}

// Nodes to insert right before and after each node of a graph, by its index.
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
    const node_list old = graph_take_nodes(g);
    for (int i = 0; i < old.n; i++) {
        for (int k = 0; k < list->n_before[i]; k++)
            graph_append(g, list->before[i * MAX_OUT + k]);
        graph_append(g, old.nodes[i]);
        for (int k = 0; k < list->n_after[i]; k++)
            graph_append(g, list->after[i * MAX_OUT + k]);
    }
    graph_leave_layers(g);
}

// Inserts take_in's node after each accumulator; `replace`: and zeros before it.
static void insert_nodes(graph *g, bool replace, take_in_fn take_in, void *ctx) {
    DRV_ASSERT(g->stage == STAGE_DIFFERENTIATED, "sums of gradients in graph %s", g->name);
    const int n_tensors = g->n_tensors;
    accumulator *of = ARENA_ARRAY(g->a, accumulator, n_tensors);
    const insertions list = insertions_new(g->a, g->n_nodes);
    find_accumulators(g, of);
    for (int i = 0; i < n_tensors; i++) {
        accumulator *a = &of[i];
        if (!is_sum(a) || (replace && a->sum->dt != DT_F32)) continue;
        a->weight = weight_of(g, a->sum->name);
        if (replace) list.before[a->first * MAX_OUT + list.n_before[a->first]++] = begin(g, a);
        use_layer_of(g, g->nodes[a->last]);
        list.after[a->last * MAX_OUT + list.n_after[a->last]++] = take_in(g, a, ctx);
    }
    insert(g, &list);
}

void accumulators_replace(graph *g, take_in_fn take_in, void *ctx) {
    insert_nodes(g, true, take_in, ctx);
}

void accumulators_follow(graph *g, take_in_fn take_in, void *ctx) {
    insert_nodes(g, false, take_in, ctx);
}
