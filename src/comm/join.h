// Joining what the ranks of a group have sent: fixed trees.
#pragma once
#include "comm/comm.h"

// out[k] = the join of part[0][k] .. part[n_parts - 1][k]. The tree halves [0, n) at the largest
// power of two below n, so that any complete subtree of it may have been joined before: ranks that
// hold 2^k neighbours each give the bits of one that holds all (design D7). bf16 is joined as fp32
// and rounded once. Max: NaN where any is NaN, and +0 above -0, so that order decides nothing. out
// may be one of the parts.
void join_parts(dtype dt, comm_join join, const void *const *part, int n_parts, int64_t n,
        void *out);

// The same of parts that are runs of `run` neighbours: each run is joined in such a tree, then the
// runs are. Another sum than join_parts where `run` is no power of two.
void join_runs(dtype dt, comm_join join, const void *const *part, int n_parts, int run, int64_t n,
        void *out);
