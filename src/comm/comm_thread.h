// The communication thread of a rank: it runs collectives while the steps compute
// (docs/adr/0027). It takes one asynchronous operation after the other from a queue and uses a
// duplicate of the rank's comm. All ranks of a group must start the same operations in the same
// order.
#pragma once
#include "comm/comm.h"

typedef struct comm_thread comm_thread;

// All ranks open and close the same number, in the same order as other duplicates. The thread
// starts with the first operation.
comm_thread *comm_thread_open(comm *c);
// Waits for all operations that were started. Call it before the comm is closed; NULL is allowed.
void comm_thread_close(comm_thread *self);

// Returns the group of the same ranks that operations on the thread must use.
comm_group *comm_thread_group(comm_thread *self, comm_group *g);

// Starts an operation and returns its number, counted from 1. After a failed operation no other one
// runs. `bytes` is what it will send over `g` (from comm_thread_group); they count as sent at once.
int64_t comm_thread_start(comm_thread *self, drv_status (*run)(const void *async_op),
        const void *async_op, comm_group *g, int64_t bytes);
// Waits until operation `number` is done; returns the failure if there was one before. If `g` (from
// comm_thread_group) is given, the caller is the rank's own thread: the wait counts as an operation
// `what` of the group and in comm_waited, and all ranks of the group must wait at the same point.
// NULL: another thread waits.
DRV_CHECKED drv_status comm_thread_wait(comm_thread *self, int64_t number, comm_group *g,
        const char *what);
