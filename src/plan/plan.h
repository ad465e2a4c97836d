// Static memory planning (design D4): the lifetime and the offset of every temporary.
//
// Invariants (checked by tests): two temporaries whose lifetimes overlap do not overlap in the
// arena, unless one is the in-place successor of the other; every offset is a multiple of
// PLAN_ALIGN; arena_bytes is the end of the last one. A back end that allocates the state of a
// graph, each tensor rounded up to PLAN_ALIGN, and its arena allocates exactly the planned bytes.
#pragma once
#include "ir/graph.h"

enum { PLAN_ALIGN = 64 };

typedef struct plan {
    const graph *g;
    int64_t *offset;        // by tensor id, in the arena; -1: not a temporary
    int *first, *last;      // by tensor id: nodes that define it and read it last; -1: none
    const tensor **storage; // by tensor id: the tensor whose storage it shares
    int64_t *workspace;     // by node: offset of its scratch
    int64_t *scratch_bytes; // by node: size of its scratch
    int64_t arena_bytes;    // host_bytes at its end included
    int64_t host_bytes;     // tensors in host memory, for a device with separate memory
    int64_t class_bytes[N_TENSOR_CLASSES]; // state by class, by plan_state_bytes
    double flops;
    double wire_bytes[N_AXES]; // sent by a rank, by axis of the mesh
    int64_t place_probes;      // steps of placing, see place_items
} plan;

// Returns the bytes that a back end allocates for a state tensor, rounded up to PLAN_ALIGN; 0: it
// lies in a pool, which is allocated once.
int64_t plan_state_bytes(const tensor *t);

// Scratch that a back end needs while it runs a node.
typedef int64_t (*workspace_fn)(void *ctx, const node *n);

// Adds the bytes that a rank sends when it runs a node of g, by axis of the mesh.
void plan_add_wire(const graph *g, const node *n, double bytes[N_AXES]);

// Plans a graph, which is STAGE_DIFFERENTIATED or later (or a forward graph) and becomes
// STAGE_PLANNED. The plan lives in `a`. workspace NULL: no node needs scratch.
plan *plan_make(arena *a, graph *g, workspace_fn workspace, void *ctx);
