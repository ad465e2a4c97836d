// The tools of gradient rules. A rule runs while autodiff (passes/autodiff.c) walks the forward
// nodes backwards: it reads the gradients of a node's outputs and adds to those of its inputs.
#pragma once
#include "ir/op.h"

struct grad_ctx {
    graph *g;
    int n;             // tensors of the forward graph: the length of the arrays
    bool *wanted;      // by tensor id: it depends on something trainable
    tensor **d;        // by tensor id: dL/dt so far
    tensor **buffer;   // by tensor id: current value of the accumulator
    tensor **replaced; // by tensor id: what its readers are to read instead
};

// Allocates the arrays, marks what is wanted, and gives every trainable weight W the state
// "grad.W", zero at the start of a step (graph_accumulator); a share of W has "grad.W.second".
grad_ctx grad_open(graph *g);
// Applies the replacements. The graph may then be pruned.
void grad_close(grad_ctx *ctx);

// dL/dt so far; NULL: none.
tensor *grad_of(const grad_ctx *ctx, const tensor *t);
// Returns whether dL/dt is needed: false if t depends on no weight that is trained.
bool grad_wanted(const grad_ctx *ctx, const tensor *t);
// Adds d to dL/dt; nothing if it is not wanted.
void grad_add(grad_ctx *ctx, const tensor *t, tensor *d);
// Makes d all of dL/dt, where it holds what grad_of() gave already. t must be wanted.
void grad_put(grad_ctx *ctx, const tensor *t, tensor *d);
// Returns the accumulator of a weight, a state tensor that an op updates in place. NULL: t is not a
// weight, or is frozen. With several reduction blocks of the row the op has that attribute
// (grad_row_blocks) and adds what each reduction block of its tokens gives to the accumulator of
// that reduction block, as a rank with no other reduction block would.
tensor *grad_buffer(const grad_ctx *ctx, const tensor *t);
int grad_row_blocks(const grad_ctx *ctx); // the attribute; 0: a single one
int grad_partial_sums(
        const grad_ctx *ctx); // likewise: what is added is a chain of so many partial sums
void grad_buffer_set(grad_ctx *ctx, const tensor *t, tensor *updated);
// `attrs`, and how the gradient of a forward node's weight is summed over tokens: dw_blocks,
// dw_ranks, grad_row_blocks, grad_partial_sums.
op_attrs grad_tokens(const grad_ctx *ctx, const node *n, op_attrs attrs);
// Returns the bytes that a rank sends for it (ir/token_sums.h).
double wire_of_tokens(const op_attrs *attrs, const tensor *accumulator);
// Whoever reads `old` reads `with` (used where forward and backward are one op).
void grad_replace(grad_ctx *ctx, const tensor *old, tensor *with);
