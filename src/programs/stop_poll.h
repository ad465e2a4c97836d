// Lets the ranks of a job agree, between the parts of a long task, on whether a stop was requested:
// all stop after the same part, since none may leave the others in a collective.
#pragma once
#include "comm/comm.h"

typedef struct stop_poll {
    comm_group *all_ranks;
    int64_t every;  // parts between two agreements, the same number on all ranks
    int64_t n_done; // parts since the last agreement
    double began_s; // clock at that
} stop_poll;

// Makes a poll in which the ranks ask each other after every `every` parts at first.
stop_poll stop_poll_new(comm *c, int64_t every);
// Starts the clock; the time before does not count.
void stop_poll_begin(stop_poll *p);
// Notes that this rank has done `n` more parts of `doing`; every rank calls it after the same ones.
// DRV_STOPPED, on all ranks at the same call: a stop was asked for on one of them. The only rank of
// a job looks each time. Several ask each other about twice a second: an all-reduce of 16 bytes.
DRV_CHECKED drv_status stop_poll_done(stop_poll *p, int64_t n, const char *doing);
// Sets how often they ask, where nothing was asked for long: `parts` took the slowest rank
// `seconds`. All ranks give the same numbers.
void stop_poll_pace(stop_poll *p, int64_t parts, double seconds);
