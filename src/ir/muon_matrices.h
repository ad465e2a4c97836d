// The matrices of a weight that Muon orthogonalises separately: the parts of a fused weight
// (model/parameters.h), one below the other.
//
// Legend: R rows and C columns of a whole matrix, of all tensor ranks; M the smaller of both.
#pragma once
#include "ir/graph.h"

enum { MAX_MATRICES = 3 };

typedef struct muon_matrix {
    int64_t row, rows; // its rows in this rank's part of the weight: first, number
    int64_t R, C, M;
} muon_matrix;

// Lists the matrices of an orthogonalise node (ir/ops/muon.c) in order and returns their number.
static inline int muon_matrices(const node *n, muon_matrix list[MAX_MATRICES]) {
    const op_attrs *attrs = &n->attrs;
    const int64_t ends[MAX_MATRICES] = {attrs->update.second_row, attrs->update.third_row,
            attrs->update.rows},
                  ranks = attrs->mesh.ranks;
    int n_matrices = 0;
    for (int64_t k = 0, begin = 0; k < MAX_MATRICES; k++) {
        if (ends[k] <= begin) continue;
        muon_matrix *one = &list[n_matrices++];
        *one = (muon_matrix){.row = begin,
                .rows = ends[k] - begin,
                .R = (ends[k] - begin) * (attrs->mesh.dim == 0 ? ranks : 1),
                .C = attrs->update.columns * (attrs->mesh.dim == 1 ? ranks : 1)};
        one->M = one->R < one->C ? one->R : one->C;
        begin = ends[k];
    }
    return n_matrices;
}
