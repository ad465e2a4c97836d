// The work of a program, summed by the resource that limits each node. A device's profile converts
// these amounts to seconds (search/step_cost.h).
#pragma once
#include "ir/graph.h"

// FLOPs of products, and the sum of FLOPs times 1/M + 1/N + 1/K, since small products run below the
// peak.
typedef struct product_work {
    double flops, small;
    double rounded; // bytes that rounding operands to fp8 reads and writes
} product_work;

typedef struct work {
    product_work weights;    // products with the weights of layers
    product_work head;       // the output layer: logits, loss and their gradients
    double attention;        // FLOPs as the op table counts them
    double bytes;            // minimum that all other nodes read and write (node_bytes)
    double launches;         // nodes that compute or send
    double wire[N_AXES];     // bytes that a rank sends, by axis
    double messages[N_AXES]; // collectives, by axis
} work;

// Adds the nodes of a graph: forward nodes to *forward; all others, recomputation included, to
// *backward. Both may point to the same object.
void work_add_graph(const graph *g, work *forward, work *backward);
// Adds `times` times the amounts of `more`.
void work_add(const work *more, double times, work *to);
