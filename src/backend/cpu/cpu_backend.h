// The CPU back end's own declarations.
#pragma once
#include "backend/backend.h"
#include "backend/cpu/gemm.h"
#include "kernels/kernels.h"

// One lowered node. `fn` runs it; pointers are set when the program is linked to memory.
typedef struct instruction instruction;
struct instruction {
    void (*fn)(const instruction *i);
    const node *n;
    void **in, **out, *workspace;
    const kernels *k;
    const kernels *attention; // may be of another level (see gemm.h on arithmetic)
    gemm *gemm[6];            // of matmul and linear_cross_entropy
};

// What does not depend on the machine: scratch of a node for a number of threads.
int64_t cpu_workspace(const node *n, int threads);

// Fills fn and the GEMMs of an instruction. NULL fn: nothing to do (barrier on one rank).
drv_status cpu_lower(arena *a, gemm_machine *m, const node *n, instruction *out);
drv_status loss_lower(arena *a, gemm_machine *m, const node *n, instruction *out);
int64_t loss_workspace(const node *n, int threads);
