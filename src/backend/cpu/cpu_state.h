// Named state of the CPU back end: plain pages that programs share. The communication thread of the
// rank (comm/comm_thread.h) may still be writing some of it when the next node runs; whoever
// touches that waits.
#pragma once
#include "backend/cpu/cpu_op.h"
#include "base/name_map.h"
#include "comm/comm_thread.h"
#include "plan/plan.h"

typedef struct state { // storage of a named tensor
    char *p;
    int64_t bytes;             // of all slots
    _Atomic int64_t async_op;  // that writes it; 0: none
    const instruction *writer; // whose asynchronous operation that is
} state;

typedef struct page_block { // to give back
    void *p;
    int64_t bytes;
} page_block;

typedef struct state_store {
    arena *a;
    name_map names;
    page_block *blocks;
    int n_blocks, cap_blocks;
    int64_t held;             // bytes of pages
    comm_thread *comm_thread; // NULL: one rank
} state_store;

// DRV_E_DEVICE: the machine has not got them. What it has promised to others as well fails only
// when touched (see train, which compares beforehand). `what` is for the message.
DRV_CHECKED drv_status store_pages(state_store *s, const char *what, int64_t bytes, char **out);
// Creates the state that the graph names and that does not exist yet, in one block.
DRV_CHECKED drv_status store_create(state_store *store, const graph *of);
void store_free(state_store *s);

// Returns the state of a tensor's storage; NULL: a temporary.
state *store_of(const state_store *s, const plan *p, const tensor *t);
// Finds bytes for the host, once nobody writes them.
DRV_CHECKED drv_status store_find(const state_store *s, const char *name, int64_t offset,
        int64_t bytes, char **out);

// Lists the state that a node reads and writes; ends with NULL.
state **store_touched(const state_store *s, const plan *p, const node *n);
// Until nobody writes any of these. *writer: the last one that was waited for; stays if none was.
DRV_CHECKED drv_status store_settle(const state_store *s, state *const *touched,
        const instruction **writer);
// Runs a node that goes on during those that follow.
void store_begin(const state_store *s, const plan *p, const instruction *ins);
