// Estimates the time of a step's messages over links of two speeds: between ranks of one host, and
// between hosts. Ranks are assigned to hosts in their order (ir/mesh.h), so the axes whose
// neighbours are nearest, the tensor axis first, are inside a host.
#pragma once
#include "ir/mesh.h"

typedef struct link_speeds {
    double inside, between; // bytes/s that a rank can send within its host, and to another host
    int64_t ranks_per_host; // 0: all links have the same speed
} link_speeds;

// Returns the seconds of a collective in which a rank sends `bytes` to n ranks which are `stride`
// ranks apart. The ranks of a host divide the traffic to other hosts and forward it to each other
// at the same time, as NCCL does (https://docs.nvidia.com/deeplearning/nccl).
double link_all_seconds(const link_speeds *l, int64_t stride, int64_t n, double bytes);
// Returns the seconds in which each of these ranks sends `bytes` to its neighbour, as in a ring of
// context ranks or between pipeline stages. All wait for the slowest, whose neighbour is on another
// host.
double link_next_seconds(const link_speeds *l, int64_t stride, int64_t n, double bytes);

// Returns the seconds of a rank's messages over an axis of the mesh; AXIS_DATA means the ranks of
// the update, context ranks included (mesh_of_update), or the ranks of a group, if there are groups
// of data ranks.
double link_axis_seconds(const link_speeds *l, const mesh *m, mesh_axis axis, double bytes);
// Returns the seconds of a rank's messages to the ranks of other groups of data ranks that hold the
// same shards.
double link_groups_seconds(const link_speeds *l, const mesh *m, double bytes);
