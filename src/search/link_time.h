// Estimates how long the messages of a step take on links of two speeds: between ranks of one host,
// and between hosts. Ranks fill the hosts in their order (ir/mesh.h), so that axes with near
// neighbours, the tensor axis first, lie inside a host.
#pragma once
#include "ir/mesh.h"

typedef struct link_speeds {
    double inside, between; // bytes/s that a rank sends: within its host; to another one
    int64_t ranks_per_host; // 0: all links are alike
} link_speeds;

// Returns the seconds of a collective in which a rank sends `bytes` to n ranks which are `stride`
// ranks apart. The ranks of a host share what leaves it and pass it on to each other meanwhile, as
// NCCL does (https://docs.nvidia.com/deeplearning/nccl): each sends its part of it between hosts.
double link_all_seconds(const link_speeds *l, int64_t stride, int64_t n, double bytes);
// Returns the seconds for `bytes` that each of them sends to its neighbour: a ring of context
// ranks, the boundaries of a pipeline. All wait for the slowest, the one whose neighbour is on
// another host.
double link_next_seconds(const link_speeds *l, int64_t stride, int64_t n, double bytes);

// Returns the seconds for what a rank sends over an axis of the mesh; AXIS_DATA is that of the
// update, with the context ranks (mesh_of_update).
double link_axis_seconds(const link_speeds *l, const mesh *m, mesh_axis axis, double bytes);
