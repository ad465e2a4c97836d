// Named state of the CPU back end: pages that programs share. The rank's communication thread
// (comm/comm_thread.h) may still be writing some of it, or a temporary that an asynchronous node
// makes, when the next node runs; accessing that waits until it is done.
#pragma once
#include "backend/cpu/cpu_op.h"
#include "base/name_map.h"
#include "comm/comm_thread.h"
#include "plan/plan.h"

typedef struct state { // storage of a named tensor, or of a temporary of an asynchronous node
    char *p;           // NULL: in the pool or the arena
    int64_t bytes;
    bool in_pool;
    int span;                  // its span of the pool
    int64_t in_span;           // its offset there
    _Atomic int64_t async_op;  // number of the operation that writes it; 0: none
    const instruction *writer; // the instruction that started the operation
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
    int64_t pool_bytes;       // 0: no program has a pool
    char *pool;               // at the start of the back end's arena
    const int64_t *spans;     // offsets in the pool (backend_use_slot)
    int64_t held;             // bytes of pages
    comm_thread *comm_thread; // NULL: one rank
} state_store;

// Allocates pages. DRV_E_DEVICE: there is not enough memory. The system may promise more memory than
// it has, which fails only when it is used (train checks beforehand). `what` is for the message.
DRV_CHECKED drv_status store_pages(state_store *s, const char *what, int64_t bytes, char **out);
// Creates the named state of the graph that does not exist yet, in one block.
DRV_CHECKED drv_status store_create(state_store *store, const graph *of);
void store_free(state_store *s);

// Returns the state of a tensor's storage; NULL: a temporary.
state *store_of(const state_store *s, const plan *p, const tensor *t);
// Returns where a state in the pool lies now.
static inline char *store_place(const state_store *s, const state *one) {
    return s->pool + s->spans[one->span] + one->in_span;
}
// Returns a pointer to state for the host, after pending writes to it.
DRV_CHECKED drv_status store_find(const state_store *s, const char *name, int64_t offset,
        int64_t bytes, char **out);

// Returns a new state for each temporary that an asynchronous node of the graph writes, by the id
// of its storage; NULL for all other tensors.
state **store_arriving(const state_store *s, const plan *p);
// Lists the state that a node reads or writes, and those temporaries; ends with NULL.
state **store_touched(const state_store *s, const plan *p, state *const *arriving, const node *n);
// Lists only those that it writes.
state **store_written(const state_store *s, const plan *p, state *const *arriving, const node *n);
// Waits until no operation writes any of these states. *writer: the last instruction waited for;
// unchanged if none was.
DRV_CHECKED drv_status store_settle(const state_store *s, state *const *touched,
        const instruction **writer);
// Runs an asynchronous node: its first half now, the rest on the communication thread.
void store_begin(const state_store *s, const instruction *ins);
