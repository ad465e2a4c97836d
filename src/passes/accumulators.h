// Adds one node after the last op that adds to each sum of gradients: it rounds, shards or sums
// what the micro-batch gave (round_gradients.c, shard_gradients.c, overlapped_sums.c). No other op
// knows of it.
#pragma once
#include "ir/program_inputs.h"

typedef struct accumulator {
    tensor *sum;     // the state "grad.W" or "grad.W.second"
    tensor *weight;  // W
    int first, last; // nodes: the first that reads it, the last that adds to it
    tensor *added;   // what that gives: with all of this micro-batch
} accumulator;

// An input that such nodes read, of a chunk, with so many slots.
typedef struct slotted_input {
    program_input which;
    int chunk, n_slots;
} slotted_input;
// Made when a node first asks for it.
tensor *slotted_input_of(graph *g, const slotted_input *input);

// Gives the sum its type and shape and returns the node, not yet in the graph, that takes `added`
// into it.
typedef node *(*take_in_fn)(graph *g, const accumulator *of, void *ctx);

// Replaces every sum of fp32 of a differentiated graph: ops add to zeros, and the node takes in
// what they have become.
void accumulators_replace(graph *g, take_in_fn take_in, void *ctx);
// Lets the node follow every sum.
void accumulators_follow(graph *g, take_in_fn take_in, void *ctx);
