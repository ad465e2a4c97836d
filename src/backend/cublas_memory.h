// The memory that cuBLASLt's products on CUDA need in addition to operands and results.
#pragma once
#include "ir/graph.h"

// Counts the bytes for the product of a node, 0 if it has none: the bytes of its operands, but at
// most XLA's workspace limit on Hopper and later, 32 MiB (4 MiB before; xla/service/gpu, GemmConfig
// and GemmWorkspaceRewriteVisitor).
int64_t cublas_scratch_bytes(const node *n);
// Counts the bytes for the product that needs most.
int64_t cublas_most_scratch(const graph *g);
// Counts the copies in fp8 of the weights whose products are in fp8, a byte per element: XLA makes
// them once a step and keeps them over all micro-batches.
int64_t cublas_fp8_bytes(const graph *g);
