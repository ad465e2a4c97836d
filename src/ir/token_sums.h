// Says how a node sums over its tokens what it adds to gradients. Tokens lie block after block of
// the row (row_blocks), in each partial sum after partial sum (docs/adr/0026), and each of these
// sums is a tree over `blocks` runs of its tokens on each rank (docs/adr/0012). Where `ranks` share
// the tokens, each has as many of all runs, which follow each other: those of one sum may be on
// several.
#pragma once
#include "ir/op.h"

// Counts the sums over tokens of all ranks together: block after block, partial sum after partial
// sum.
static inline int64_t sums_of_tokens(const op_attrs *attrs) {
    return (int64_t)row_blocks_of(attrs) * partial_sums_of(attrs);
}

static inline int runs_of_block(const op_attrs *attrs) {
    return attrs->sum.blocks > 1 ? attrs->sum.blocks : 1;
}

// Runs of a sum, of all ranks.
static inline int runs_of_sum(const op_attrs *attrs) {
    return runs_of_block(attrs) * (attrs->mesh.ranks > 1 ? attrs->mesh.ranks : 1);
}

// Runs of this rank, of all sums.
static inline int64_t runs_of_rank(const op_attrs *attrs) {
    return sums_of_tokens(attrs) * runs_of_block(attrs);
}

// Returns whether ranks tell each other what they have found of several sums; a single one they
// join.
static inline bool tells_runs(const op_attrs *attrs) {
    return attrs->mesh.ranks > 1 && sums_of_tokens(attrs) > 1;
}

// So many neighbouring runs a rank joins itself: its runs of a sum; where it tells them, the
// largest complete parts of the tree (comm/join.h) that lie on one rank whatever its place.
static inline int runs_joined_here(const op_attrs *attrs) {
    int n = 1;
    if (!tells_runs(attrs)) return runs_of_block(attrs);
    while (runs_of_rank(attrs) % (2 * n) == 0 && runs_of_sum(attrs) % (2 * n) == 0)
        n *= 2;
    return n;
}
