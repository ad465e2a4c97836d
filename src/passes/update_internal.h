// Shared by update_program.c and muon_update.c.
#pragma once
#include "ir/op.h"
#include "passes/passes.h"

typedef struct updated_weight {
    tensor *weight; // in the compute type: whole, or this rank's shard where weights are shards
    tensor *p;      // the tensor that is updated: the master or its shard, or the weight itself
    tensor *copy; // of p in the compute type: the weight, or this rank's shard of it; NULL: it is p
} updated_weight;
updated_weight update_weight(graph *g, const tensor *w, const update_opts *opts);
// Gathers the weight from the ranks. n is the node that computes p and, as its last output, the
// copy. Returns the new value of p.
tensor *update_end(graph *g, const updated_weight *it, const node *n, const update_opts *opts);

// Attributes of a collective over an axis.
op_attrs update_along(const graph *g, mesh_axis axis);
// Makes optimizer state for a weight, named "PREFIXweight".
tensor *update_state(graph *g, const char *prefix, const tensor *w, dtype dt,
        const update_opts *opts);
// Returns this rank's part of a tensor in the shape of a weight: a copy of its shard if data ranks
// share the optimizer, else the whole.
tensor *update_share(graph *g, tensor *w, const update_opts *opts);

static inline bool update_by_muon(const update_opts *opts, int i) {
    return opts->muon && opts->muon[i].is;
}
// Updates those of n weights that are Muon's; updated[i] becomes the new p of weight i.
void update_muon(graph *g, tensor *const *weights, tensor *const *grads, int n, tensor *norm2,
        tensor *hyper, const update_opts *opts, tensor **updated);
