// Used by the rules of ops with an axis: sums over ranks, and the place of this rank.
#pragma once
#include "backend/pjrt/stablehlo/hlo_collective.h"
#include "backend/pjrt/stablehlo/lower.h"

// Return the sum or the maximum of x over the ranks that differ along `axes` (bits 1 << AXIS_DATA,
// ...); x itself if there is one such rank.
hlo_value lower_sum_along(lowering *l, hlo_value x, unsigned axes);
hlo_value lower_max_along(lowering *l, hlo_value x, unsigned axes);

// Returns groups of n neighbours along an axis.
hlo_groups lower_neighbours(lowering *l, mesh_axis axis, int n);

// Returns this rank's place along an axis, i32. All replicas run one program, so it is an argument,
// not a constant.
hlo_value lower_place(lowering *l, mesh_axis axis);

// For indices of rows (i32) of a table of which each rank along the node's axis has n_here: returns
// them relative to this rank's first row, and sets *is_here to whether it has the row.
hlo_value lower_rows_here(lowering *l, const node *n, hlo_value rows, int64_t n_here,
        hlo_value *is_here);
