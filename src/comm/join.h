// Reductions over the parts that the ranks of a group have sent, in fixed trees.
#pragma once
#include "comm/comm.h"

// out[k] = part[0][k] + .. + part[n_parts - 1][k], or their maximum. The tree splits [0, n) at the
// largest power of two below n, so any complete subtree may be reduced beforehand: ranks that hold
// 2^k neighbours each give the bits of one rank that holds all (design D7). bf16 is summed in fp32
// and rounded once. The maximum is NaN if any part is NaN, and +0 is above -0, so that the order
// does not matter. out may be one of the parts.
void join_parts(dtype dt, comm_join join, const void *const *part, int n_parts, int64_t n,
        void *out);

// The same in two levels: each `run` neighbours are reduced in such a tree, then the results are.
// This differs from join_parts if `run` is not a power of two.
void join_runs(dtype dt, comm_join join, const void *const *part, int n_parts, int run, int64_t n,
        void *out);
