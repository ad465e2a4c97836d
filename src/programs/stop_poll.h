// Lets the ranks of a job agree, between the parts of a long task, whether a stop was requested.
// All stop after the same part, so that no rank waits in a collective for one that has left.
#pragma once
#include "comm/comm.h"

typedef struct stop_poll {
    comm_group *all_ranks;
    int64_t every;  // parts between two agreements, the same number on all ranks
    int64_t n_done; // parts since the last agreement
    double began_s; // clock at the last agreement
} stop_poll;

// Makes a poll in which the ranks agree after every `every` parts at first.
stop_poll stop_poll_new(comm *c, int64_t every);
// Starts the clock; the time before does not count.
void stop_poll_begin(stop_poll *p);
// Records that this rank has done `n` more parts of `doing`; all ranks call it after the same
// parts. DRV_STOPPED, on all ranks at the same call: a stop was requested on one of them. A single
// rank checks in each call; several ranks agree about twice a second by an all-reduce of 16 bytes.
DRV_CHECKED drv_status stop_poll_done(stop_poll *p, int64_t n, const char *doing);
// Sets how often the ranks agree, from the `seconds` that `parts` took on the slowest rank. All
// ranks pass the same numbers.
void stop_poll_pace(stop_poll *p, int64_t parts, double seconds);
