// The parts of the update program (update_program.c, muon_update.c) share these.
#pragma once
#include "ir/op.h"
#include "passes/passes.h"

typedef struct updated_weight {
    tensor *weight; // as the model multiplies with it, whole
    tensor *p;      // what is updated: the master or its shard, or the weight itself
    tensor *copy; // of p in the compute type: the weight, or this rank's shard of it; NULL: it is p
} updated_weight;
updated_weight update_weight(graph *g, const tensor *w, const update_opts *opts);
// n is the node that gives p, and last the copy, its new value, which it returns: what other ranks
// have becomes part of the weight.
tensor *update_end(graph *g, const updated_weight *it, const node *n, const update_opts *opts);

// Attributes of a collective over an axis.
op_attrs update_along(const graph *g, mesh_axis axis);
// State of the optimizer beside a weight, "PREFIXweight".
tensor *update_state(graph *g, const char *prefix, const tensor *w, dtype dt,
        const update_opts *opts);
// Returns this rank's part of a tensor in the shape of a weight: a copy of its shard, where data
// ranks share the work, else the whole.
tensor *update_share(graph *g, tensor *w, const update_opts *opts);

static inline bool update_by_muon(const update_opts *opts, int i) {
    return opts->muon && opts->muon[i].is;
}
// Updates those of n weights that are Muon's; updated[i] becomes the new p of weight i.
void update_muon(graph *g, tensor *const *weights, tensor *const *grads, int n, tensor *norm2,
        tensor *hyper, const update_opts *opts, tensor **updated);
