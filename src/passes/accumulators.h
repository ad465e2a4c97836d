// Appends a node to each sum of gradients, after the last op that adds to it. The node rounds,
// shards or sums the gradient of the micro-batch (round_gradients.c, shard_gradients.c,
// overlapped_sums.c); other ops do not change.
#pragma once
#include "ir/program_inputs.h"

typedef struct accumulator {
    tensor *sum;     // the state "grad.W" or "grad.W.second"
    tensor *weight;  // W
    int first, last; // indices of the first node that reads it and the last one that adds to it
    tensor *added;   // the output of the latter: includes the whole micro-batch
} accumulator;

// An input of a model chunk, with n_slots slots, that such nodes read.
typedef struct slotted_input {
    program_input which;
    int chunk, n_slots;
} slotted_input;
// Returns the input; makes it on the first call.
tensor *slotted_input_of(graph *g, const slotted_input *input);

// Sets the type and shape of the sum and returns the node, not yet in the graph, that adds `added`
// to it.
typedef node *(*take_in_fn)(graph *g, const accumulator *of, void *ctx);

// Replaces every fp32 sum of a differentiated graph: ops add to zeros, and the node adds the result
// to the sum.
void accumulators_replace(graph *g, take_in_fn take_in, void *ctx);
// Appends the node to every sum.
void accumulators_follow(graph *g, take_in_fn take_in, void *ctx);
