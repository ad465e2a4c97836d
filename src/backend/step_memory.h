// The memory of a training step of one micro-batch that a compiler makes one program with its
// update (step_parts in backend.h). It is smaller than that of several micro-batches, which are a
// loop, for two reasons. A gradient needs memory only from the node on that makes it. And a weight
// whose new value the update rounds from its master is not read between its last use and the
// update: XLA puts other values into its memory.
#pragma once
#include "backend/cudnn_attention.h"
#include "plan/plan.h"

typedef struct step_memory {
    int64_t bytes;     // that the program needs beside its state at its peak
    int64_t gradients; // of these
} step_memory;

// Counts cuDNN's masks among these bytes, and cuBLASLt's scratch if the products are its own
// (`cublas`).
step_memory step_memory_of(const plan *micro_batch, const plan *update, const cudnn_choice *how,
        bool cublas);
