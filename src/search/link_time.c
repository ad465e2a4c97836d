// Computes the time of messages from two link speeds.
#include "search/link_time.h"

#include <math.h>

// Counts those of n ranks, `stride` apart, that share a host.
static int64_t together(const link_speeds *l, int64_t stride, int64_t n) {
    const int64_t here = l->ranks_per_host ? l->ranks_per_host / stride : n;
    return here < 1 ? 1 : here < n ? here : n;
}

double link_all_seconds(const link_speeds *l, int64_t stride, int64_t n, double bytes) {
    if (n <= 1) return 0;
    const int64_t here = together(l, stride, n);
    const double inside = here > 1 ? bytes / l->inside : 0;
    return here == n ? inside : fmax(inside, bytes / (double)here / l->between);
}

double link_next_seconds(const link_speeds *l, int64_t stride, int64_t n, double bytes) {
    if (n <= 1) return 0;
    return bytes / (together(l, stride, n) == n ? l->inside : l->between);
}

double link_axis_seconds(const link_speeds *l, const mesh *m, mesh_axis axis, double bytes) {
    const int64_t n = m->size[axis], stride = mesh_stride(m, axis);
    switch (axis) {
    case AXIS_TENSOR:
        return link_all_seconds(l, stride, n, bytes);
    case AXIS_DATA:
        return link_all_seconds(l, m->size[AXIS_TENSOR], n / mesh_groups(m) * m->size[AXIS_CONTEXT],
                bytes);
    default:
        return link_next_seconds(l, stride, n, bytes);
    }
}

double link_groups_seconds(const link_speeds *l, const mesh *m, double bytes) {
    const int64_t in_group = m->size[AXIS_DATA] / mesh_groups(m);
    return link_all_seconds(l, in_group * mesh_stride(m, AXIS_DATA), mesh_groups(m), bytes);
}
