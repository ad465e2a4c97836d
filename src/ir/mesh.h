// The mesh of ranks (design D2). Tensor is the fastest axis: a rank with places p, d, c, t on the
// axes is rank ((p * size[DATA] + d) * size[CONTEXT] + c) * size[TENSOR] + t.
#pragma once

typedef enum mesh_axis { AXIS_PIPELINE, AXIS_DATA, AXIS_CONTEXT, AXIS_TENSOR, N_AXES } mesh_axis;

typedef struct mesh {
    int size[N_AXES]; // ranks along each axis, at least 1
    // The number of groups of neighbouring data ranks, each of which holds all weights
    // (parallel.zero_group, docs/adr/0048); 0: one.
    int groups;
} mesh;

static inline mesh mesh_single(void) {
    return (mesh){.size = {1, 1, 1, 1}};
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

// Returns the difference of the ranks of two neighbours along an axis.
static inline int mesh_stride(const mesh *m, mesh_axis axis) {
    int stride = 1;
    for (int faster = N_AXES - 1; faster > (int)axis; faster--)
        stride *= m->size[faster];
    return stride;
}

// Data and context ranks have the same weights and share the sums of gradients and the optimizer,
// so they form one axis of the update. Data ranks are the faster axis in its order: sums over data
// ranks are complete before they are summed over the context axis.
static inline mesh mesh_of_update(const mesh *m) {
    mesh merged = *m;
    merged.size[AXIS_DATA] *= m->size[AXIS_CONTEXT];
    merged.size[AXIS_CONTEXT] = 1;
    return merged;
}

// Returns the place of a rank along an axis.
static inline int mesh_place(const mesh *m, int rank, mesh_axis axis) {
    return rank / mesh_stride(m, axis) % m->size[axis];
}

// Returns the place of a rank along the data axis of the update.
static inline int mesh_place_in_update(const mesh *m, int rank) {
    return mesh_place(m, rank, AXIS_CONTEXT) * m->size[AXIS_DATA] + mesh_place(m, rank, AXIS_DATA);
}

// --- groups of data ranks, their context ranks with them
static inline int mesh_groups(const mesh *m) {
    return m->groups > 1 ? m->groups : 1;
}

static inline int mesh_group_of(const mesh *m, int rank) {
    return mesh_place(m, rank, AXIS_DATA) / (m->size[AXIS_DATA] / mesh_groups(m));
}

// Returns the index of the optimizer shard that a rank of the update owns. The rank's place in its
// group determines its shard of the weights, which the groups divide among them. Without groups
// the result equals mesh_place_in_update.
static inline int mesh_shard_of(const mesh *m, int rank) {
    const int in_group = m->size[AXIS_DATA] / mesh_groups(m);
    const int place = mesh_place(m, rank, AXIS_CONTEXT) * in_group +
                      mesh_place(m, rank, AXIS_DATA) % in_group;
    return place * mesh_groups(m) + mesh_group_of(m, rank);
}
