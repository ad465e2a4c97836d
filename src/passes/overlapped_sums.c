// Sums gradients over the data ranks during the backward pass (docs/adr/0027): the sum of a weight
// starts right after the last op of the last micro-batch that adds to it.
#include "passes/accumulators.h"
#include "passes/passes.h"

typedef struct sum_shards {
    const gradient_sums *by;
    slotted_input last;
} sum_shards;

static node *sum_shard(graph *g, const accumulator *of, void *ctx) {
    const sum_shards *call = ctx;
    tensor *in[] = {of->added, slotted_input_of(g, &call->last)};
    const op_attrs attrs = {.mesh.axis = AXIS_DATA,
            .mesh.ranks = call->by->ranks,
            .sum.data_ranks = call->by->data_ranks,
            .sum.in_accum_group = call->by->micro_batches,
            .mesh.whole = call->by->whole,
            .mesh.async = 1};
    return graph_make(g, OP_sum_shard, 2, in, &attrs);
}

void pass_overlapped_sums(graph *g, const gradient_sums *by, int chunk, int n_slots) {
    accumulators_follow(g, sum_shard, &(sum_shards){by, {INPUT_LAST, chunk, n_slots}});
}
