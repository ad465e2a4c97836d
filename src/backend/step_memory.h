// The memory of a training step of a single micro-batch, which is one program with its update
// (step_parts in backend.h). It is smaller than that of several micro-batches, which are a loop,
// for two reasons. A gradient needs memory only from the node on that makes it. And a weight whose
// new value the update rounds from its master is not read between its last use and the update, so
// XLA puts other values into its memory.
#pragma once
#include "backend/cudnn_attention.h"
#include "plan/plan.h"

typedef struct step_memory {
    int64_t bytes;     // that the program needs in addition to its state, at most
    int64_t gradients; // bytes of gradients at that time
} step_memory;

// The bytes include cuDNN's masks and, if cuBLASLt computes products (`cublas`), its scratch.
step_memory step_memory_of(const plan *micro_batch, const plan *update, const cudnn_choice *how,
        bool cublas);
