// Functions for gradient rules. Autodiff (passes/autodiff.c) walks the forward nodes in reverse and
// calls the rule of each: it reads the gradients of the node's outputs and adds to those of its
// inputs.
#pragma once
#include "ir/op.h"

struct grad_ctx {
    graph *g;
    int n;             // tensors of the forward graph: the length of the arrays
    bool *wanted;      // by tensor id: it depends on a trainable tensor
    tensor **d;        // by tensor id: dL/dt so far
    tensor **buffer;   // by tensor id: current value of the accumulator
    tensor **replaced; // by tensor id: the tensor that its readers read instead
};

// Allocates the arrays, marks the wanted tensors, and makes an accumulator "grad.W" for every
// trainable weight W, zero at the start of a step (graph_accumulator). A second use of a tied W
// accumulates in "grad.W.second".
grad_ctx grad_open(graph *g);
// Applies the replacements. The graph may then be pruned.
void grad_close(grad_ctx *ctx);

// dL/dt so far; NULL: none.
tensor *grad_of(const grad_ctx *ctx, const tensor *t);
// Returns whether dL/dt is needed: false if t depends on no weight that is trained.
bool grad_wanted(const grad_ctx *ctx, const tensor *t);
// Adds d to dL/dt; does nothing if t is not wanted.
void grad_add(grad_ctx *ctx, const tensor *t, tensor *d);
// Replaces dL/dt by d, which already includes what grad_of() returned. t must be wanted.
void grad_put(grad_ctx *ctx, const tensor *t, tensor *d);
// Returns the accumulator of a weight, a state tensor that an op updates in place. NULL: t is not a
// weight, or it is frozen. If the rank has several reduction blocks of each row, the op has that
// attribute (grad_row_blocks) and adds the contribution of each block to the block's own
// accumulator, as a rank that has only this block would.
tensor *grad_buffer(const grad_ctx *ctx, const tensor *t);
int grad_row_blocks(const grad_ctx *ctx);   // the attribute; 0: one block
int grad_partial_sums(const grad_ctx *ctx); // the number of partial sums (graph.h); 0: one
void grad_buffer_set(grad_ctx *ctx, const tensor *t, tensor *updated);
// Returns `attrs` with the attributes that describe how the weight gradient of a forward node is
// summed over tokens: dw_blocks, dw_ranks, grad_row_blocks, grad_partial_sums.
op_attrs grad_tokens(const grad_ctx *ctx, const node *n, op_attrs attrs);
// Returns the bytes that a rank sends while it sums this accumulator over tokens (ir/token_sums.h).
double wire_of_tokens(const op_attrs *attrs, const tensor *accumulator);
// Makes all readers of `old` read `with` instead (used if forward and backward are one op).
void grad_replace(grad_ctx *ctx, const tensor *old, tensor *with);
