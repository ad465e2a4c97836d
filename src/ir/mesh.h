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

static inline const char *mesh_axis_name(mesh_axis axis) {
    static const char *const names[] = {"pipeline", "data", "context", "tensor"};
    return names[axis];
}

static inline int mesh_ranks(const mesh *m) {
    int n = 1;
    for (int axis = 0; axis < N_AXES; axis++)
        n *= m->size[axis];
    return n;
}

// How far apart neighbours along an axis are.
static inline int mesh_stride(const mesh *m, mesh_axis axis) {
    int stride = 1;
    for (int faster = N_AXES - 1; faster > (int)axis; faster--)
        stride *= m->size[faster];
    return stride;
}

// Where a rank is along an axis.
static inline int mesh_place(const mesh *m, int rank, mesh_axis axis) {
    return rank / mesh_stride(m, axis) % m->size[axis];
}
