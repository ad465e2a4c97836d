// The layout of ranks, as plain data (design D2). Tensor is the fastest axis: with a rank's place
// p, d, c, t on the axes, rank = ((p * size[DATA] + d) * size[CONTEXT] + c) * size[TENSOR] + t.
#pragma once

typedef enum mesh_axis { AXIS_PIPELINE, AXIS_DATA, AXIS_CONTEXT, AXIS_TENSOR, N_AXES } mesh_axis;

typedef struct mesh {
    int size[N_AXES]; // ranks along each axis, at least 1
} mesh;

static inline mesh mesh_single(void) {
    return (mesh){{1, 1, 1, 1}};
}
