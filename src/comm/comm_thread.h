// A thread of this rank that communicates with other ranks while steps run (docs/adr/0027). It does
// what it is handed in that order, with a duplicate of the rank's comm; all ranks of a group hand
// over the same collectives in the same order.
#pragma once
#include "comm/comm.h"

typedef struct comm_thread comm_thread;

// Every rank opens and closes as many, in the same order as other duplicates. The thread starts
// with the first asynchronous operation.
comm_thread *comm_thread_open(comm *c);
// Waits for all that was handed over. Before the comm is closed; NULL is allowed.
void comm_thread_close(comm_thread *q);

// The same ranks, as an asynchronous operation talks to them.
comm_group *comm_thread_group(comm_thread *q, comm_group *g);

// Asynchronous operations are numbered from 1. After one that has failed no other is begun. `bytes`
// that it will send over `g` (of comm_thread_group) count at once as those of the group that g is
// of, whenever they travel.
int64_t comm_thread_start(comm_thread *q, drv_status (*run)(const void *async_op),
        const void *async_op, comm_group *g, int64_t bytes);
// Until asynchronous operation `number` is done; the failure, if one came before that. `g` (of
// comm_thread_group) and `what`: the rank's own thread waits, which counts as an operation of the
// group and as waiting (comm_waited); all its ranks must do so at the same place. NULL: another
// thread.
DRV_CHECKED drv_status comm_thread_wait(comm_thread *q, int64_t number, comm_group *g,
        const char *what);
