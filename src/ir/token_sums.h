// The order in which a node sums gradients over its tokens. Tokens are ordered by block of the row
// (row_blocks), then by partial sum (docs/adr/0026). Each of these sums is a tree over `blocks`
// runs of consecutive tokens on each rank (docs/adr/0012). If several `ranks` divide the tokens,
// each holds an equal number of consecutive runs, so the runs of one sum may be on several ranks.
#pragma once
#include "ir/op.h"

// Returns the number of sums over tokens, over all ranks.
static inline int64_t sums_of_tokens(const op_attrs *attrs) {
    return (int64_t)row_blocks_of(attrs) * partial_sums_of(attrs);
}

static inline int runs_of_block(const op_attrs *attrs) {
    return attrs->sum.blocks > 1 ? attrs->sum.blocks : 1;
}

// Returns the number of runs of one sum on all ranks.
static inline int runs_of_sum(const op_attrs *attrs) {
    return runs_of_block(attrs) * (attrs->mesh.ranks > 1 ? attrs->mesh.ranks : 1);
}

// Returns the number of runs of all sums on this rank.
static inline int64_t runs_of_rank(const op_attrs *attrs) {
    return sums_of_tokens(attrs) * runs_of_block(attrs);
}

// Returns whether ranks gather the results of runs, as for several sums; a single one is reduced.
static inline bool tells_runs(const op_attrs *attrs) {
    return attrs->mesh.ranks > 1 && sums_of_tokens(attrs) > 1;
}

// Returns the number of neighbouring runs that a rank adds before it sends the result: its runs of
// the sum or, if ranks gather, the largest subtree (comm/join.h) that is on one rank at any place.
static inline int runs_joined_here(const op_attrs *attrs) {
    int n = 1;
    if (!tells_runs(attrs)) return runs_of_block(attrs);
    while (runs_of_rank(attrs) % (2 * n) == 0 && runs_of_sum(attrs) % (2 * n) == 0)
        n *= 2;
    return n;
}
