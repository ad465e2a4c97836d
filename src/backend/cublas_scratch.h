// Scratch of products by cuBLASLt on CUDA, which XLA allocates beside their results.
#pragma once
#include "ir/graph.h"

// Counts the bytes for the product that needs most: as many as its operands have, and at most what
// XLA gives one on Hopper and later, 32 MiB (4 MiB before; xla/service/gpu, GemmConfig and
// GemmWorkspaceRewriteVisitor).
int64_t cublas_scratch_bytes(const graph *g);
