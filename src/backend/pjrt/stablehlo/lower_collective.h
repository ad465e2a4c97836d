// Rules of ops with an axis share these: sums over ranks, and where this rank is.
#pragma once
#include "backend/pjrt/stablehlo/hlo_collective.h"
#include "backend/pjrt/stablehlo/lower.h"

// x joined over the ranks that differ along `axes` (bits 1 << AXIS_DATA, ...); x itself where those
// have one rank.
hlo_value lower_sum_along(lowering *l, hlo_value x, unsigned axes);
hlo_value lower_max_along(lowering *l, hlo_value x, unsigned axes);

// Neighbours along an axis, n at a time.
hlo_groups lower_neighbours(lowering *l, mesh_axis axis, int n);

// This rank's place along an axis: i32. All replicas run one program, so it is an argument, not a
// constant.
hlo_value lower_place(lowering *l, mesh_axis axis);

// Rows of a table of which each rank along the node's axis has n_here: numbers (i32) within this
// rank's part, and which of them are inside it.
hlo_value lower_rows_here(lowering *l, const node *n, hlo_value rows, int64_t n_here,
        hlo_value *is_here);
