// The work of a program, added up by what limits each node: the amounts of which a device's
// profile makes seconds (search/step_cost.h).
#pragma once
#include "ir/graph.h"

// FLOPs of products, and the same times 1/M + 1/N + 1/K of each: small ones run below their peak.
typedef struct product_work {
    double flops, small;
} product_work;

typedef struct work {
    product_work weights;    // products with the weights of layers
    product_work head;       // the output layer: logits, loss and their gradients
    double attention;        // FLOPs as the op table counts them
    double bytes;            // that all other nodes read and write at least (node_bytes)
    double launches;         // nodes that compute or send
    double wire[N_AXES];     // bytes that a rank sends, by axis
    double messages[N_AXES]; // collectives, by axis
} work;

// Adds the nodes of a graph: forward nodes to *forward; all others, and those that compute again,
// to *backward. Both may be the same.
void work_add_graph(const graph *g, work *forward, work *backward);
// Adds `times` of the amounts.
void work_add(const work *more, double times, work *to);
