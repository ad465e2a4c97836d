// Shards the sums of gradients over ranks (ZeRO-2, docs/adr/0021): the gradient of a micro-batch is
// sent to the owners of its shards as soon as it is complete, weight by weight in the order in
// which the backward pass finishes them.

#include "ir/op.h"
#include "ir/weight_shard.h"
#include "passes/accumulators.h"
#include "passes/passes.h"

static int n_blocks(const gradient_shards *by) { // reduction blocks of the row on all ranks
    return by->row_blocks * by->ranks / by->data_ranks;
}

static void set_dims(const gradient_shards *by, const tensor *w, int64_t dim[3]) {
    dim[0] = shard_most_open(by->micro_batches, by->data_ranks, by->in_accum_group);
    dim[1] = n_blocks(by);
    dim[2] = weight_shard_length(tensor_elements(w), by->ranks, by->groups ? by->groups : 1);
}

tensor *pass_shards(graph *g, const char *name, const tensor *w, const gradient_shards *by) {
    int64_t dim[3];
    set_dims(by, w, dim);
    return graph_state(g, TENSOR_GRAD, name, dtype_acc(w->dt), 3, dim);
}

typedef struct add_shards {
    const gradient_shards *by;
    slotted_input micro_batch;
} add_shards;

static node *add_shard(graph *g, const accumulator *of, void *ctx) {
    const add_shards *call = ctx;
    const gradient_shards *by = call->by;
    of->sum->n_dims = 3;
    set_dims(by, of->weight, of->sum->dim);
    tensor *in[] = {of->added, of->sum, slotted_input_of(g, &call->micro_batch)};
    const op_attrs attrs = {.mesh.axis = AXIS_DATA,
            .mesh.ranks = by->ranks,
            .mesh.async = by->async,
            .mesh.groups = by->groups,
            .sum.data_ranks = by->data_ranks,
            .sum.row_blocks = by->row_blocks > 1 ? by->row_blocks : 0,
            .sum.in_accum_group = (int)by->in_accum_group};
    return graph_make(g, OP_add_shard, 3, in, &attrs);
}

// The asynchronous add_shard nodes that no node waits for yet.
typedef struct pending_adds {
    node **list;
    int n;
} pending_adds;

static void await_all(graph *g, pending_adds *adds) {
    for (int i = 0; i < adds->n; i++) {
        const node *add = adds->list[i];
        tensor *in[] = {add->out[0], add->in[0], add->out[1]};
        graph_add(g, OP_await_shard, 3, in, NULL);
    }
    adds->n = 0;
}

// Overlaps the messages of a layer's gradients with the backward pass of the next layer: the first
// add_shard of a layer waits for those of the previous one, and the end of the program for all. So
// at most the gradients of two layers exist at a time, and a late rank delays others by less than
// the time of a layer.
static void await_shards(graph *g) {
    const node_list old = graph_take_nodes(g);
    pending_adds adds = {ARENA_ARRAY(g->a, node *, old.n), 0};
    for (int i = 0; i < old.n; i++) {
        node *n = old.nodes[i];
        const bool adds_shard = n->op == OP_add_shard;
        g->layer = n->layer;
        g->phase = n->phase;
        if (adds_shard && adds.n > 0 && adds.list[0]->layer != n->layer) await_all(g, &adds);
        graph_append(g, n);
        if (adds_shard) adds.list[adds.n++] = n;
    }
    await_all(g, &adds);
    graph_leave_layers(g);
}

void pass_shard_gradients(graph *g, const gradient_shards *by, int chunk, int n_slots) {
    accumulators_replace(g, add_shard, &(add_shards){by, {INPUT_MICRO_BATCH, chunk, n_slots}});
    if (by->async) await_shards(g);
}

tensor *pass_join_shards(graph *g, tensor *sums, const gradient_shards *by) {
    const op_attrs attrs = {.sum.open = shard_open(by->micro_batches, by->in_accum_group),
            .sum.row_blocks = by->groups ? n_blocks(by) : 0};
    return graph_add(g, OP_join_shards, 1, &sums, &attrs)->out[0];
}
