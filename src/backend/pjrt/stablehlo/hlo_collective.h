// Collectives between the replicas of a program. A replica is a device that runs it beside others;
// members of a group are named by their places in the program's own device assignment.
#pragma once
#include "backend/pjrt/stablehlo/hlo.h"

// Groups that together hold every replica once: row after row, `size` members each.
typedef struct hlo_groups {
    int n, size;
    const int64_t *members;
} hlo_groups;

// Reduces by "add" or "maximum" over each group, with the same bits for all of its members.
hlo_value hlo_all_reduce(hlo_text *h, const char *op, hlo_value x, hlo_groups groups);
// Returns the parts of all members, one after the other along a dim.
hlo_value hlo_all_gather(hlo_text *h, hlo_value x, int dim, hlo_groups groups);
// Returns this member's part, along a dim, of the sum over the group.
hlo_value hlo_reduce_scatter(hlo_text *h, hlo_value x, int dim, hlo_groups groups);
// Returns the value of the member before this one; the first member gets that of the last.
hlo_value hlo_shift(hlo_text *h, hlo_value x, hlo_groups groups);
