// A thread of this rank that talks to other ranks beside the steps (docs/adr/0027). It does what it
// is handed in that order, with a twin of the rank's comm; all ranks of a group hand over the same
// collectives in the same order.
#pragma once
#include "comm/comm.h"

typedef struct courier courier;

// Every rank opens and closes as many, in the same order as other twins. The thread starts with the
// first errand.
courier *courier_open(comm *c);
// Waits for all that was handed over. Before the comm is closed; NULL is allowed.
void courier_close(courier *q);

// The same ranks, as an errand talks to them.
comm_group *courier_group(courier *q, comm_group *g);

// Errands are numbered from 1. After one that has failed no other is begun. `bytes` that it will
// send over `g` (of courier_group) count at once as those of the group that g is of, whenever they
// travel.
int64_t courier_hand(courier *q, drv_status (*run)(const void *errand), const void *errand,
        comm_group *g, int64_t bytes);
// Until errand `number` is done; the failure, if one came before that. `g` (of courier_group) and
// `what`: the rank's own thread waits, which counts as an operation of the group and as waiting
// (comm_waited); all its ranks must do so at the same place. NULL: another thread.
DRV_CHECKED drv_status courier_wait(courier *q, int64_t number, comm_group *g, const char *what);
