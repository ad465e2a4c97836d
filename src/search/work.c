// Nodes by what limits them.
#include "search/work.h"

#include "ir/op.h"
#include "plan/plan.h"

static void add_product(const op_row *row, const node *n, product_work *to) {
    const double flops = row->flops(n);
    to->flops += flops;
    if (row->rounded) to->rounded += row->rounded(n);
    if (row->inverse_dims) to->small += flops * row->inverse_dims(n);
}

static void add_flops(const op_row *row, const node *n, work *to) {
    switch (row->flops_of) {
    case FLOPS_ATTENTION:
        to->attention += row->flops(n);
        return;
    case FLOPS_HEAD:
        add_product(row, n, &to->head);
        return;
    case FLOPS_PRODUCTS:
        add_product(row, n, &to->weights);
    }
}

static void add_node(const graph *g, const node *n, work *to) {
    const op_row *row = op_rows[n->op];
    double wire[N_AXES] = {0};
    plan_add_wire(g, n, wire);
    for (int axis = 0; axis < N_AXES; axis++) {
        to->wire[axis] += wire[axis];
        to->messages[axis] += wire[axis] > 0;
    }
    if (row->renames) return;
    to->launches++;
    if (row->flops)
        add_flops(row, n, to);
    else if (!row->collective)
        to->bytes += node_bytes(n);
}

void work_add_graph(const graph *g, work *forward, work *backward) {
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        add_node(g, n, n->phase == PHASE_FORWARD && !n->recomputed ? forward : backward);
    }
}

static void add_products(const product_work *more, double times, product_work *to) {
    to->flops += times * more->flops;
    to->small += times * more->small;
    to->rounded += times * more->rounded;
}

void work_add(const work *more, double times, work *to) {
    add_products(&more->weights, times, &to->weights);
    add_products(&more->head, times, &to->head);
    to->attention += times * more->attention;
    to->bytes += times * more->bytes;
    to->launches += times * more->launches;
    for (int axis = 0; axis < N_AXES; axis++) {
        to->wire[axis] += times * more->wire[axis];
        to->messages[axis] += times * more->messages[axis];
    }
}
