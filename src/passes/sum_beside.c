// Sums of gradients over the data ranks beside the backward pass (docs/adr/0027): that of a weight
// begins right after the last op of the last micro-batch that adds to it.
#include "ir/op.h"
#include "passes/accumulators.h"
#include "passes/passes.h"

typedef struct last_input {
    const gradient_sums *by;
    const char *name;
    int n_slots;
    tensor *last; // made when it is first needed
} last_input;

static node *sum_shard(graph *g, const accumulator *of, void *ctx) {
    last_input *input = ctx;
    if (!input->last)
        input->last = graph_state(g, TENSOR_INPUT, input->name, DT_I32, 1, (int64_t[]){1});
    input->last->n_slots = input->n_slots;
    tensor *in[] = {of->added, input->last};
    const op_attrs attrs = {.axis = AXIS_DATA,
            .ranks = input->by->ranks,
            .data_ranks = input->by->data_ranks,
            .in_lane = (int)input->by->micro_batches,
            .whole = input->by->whole,
            .beside = 1};
    return graph_make(g, OP_sum_shard, 2, in, &attrs);
}

void pass_sum_beside(graph *g, const gradient_sums *by, const char *last, int n_slots) {
    accumulators_follow(g, sum_shard, &(last_input){by, last, n_slots, NULL});
}
