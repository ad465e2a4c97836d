// Ring attention for rows that are split over ranks in a zigzag (ir/zigzag.h). Keys and values visit
// all ranks one after the other. Each rank computes the attention of its queries to them, and sends
// the gradients of keys and values directly to their owner. Every sum over the row is a tree over
// reduction blocks (ring_tree.h), so its bits do not depend on the number of ranks (docs/adr/0015).
//
// A pass processes some of the groups of heads, to keep its buffers small. The passes of a row run
// one after the other, and so do the rows.
//
// Legend: u tokens of a chunk; H heads, G groups of a pass; D head_dim.
//     keys   of a rank, by chunk: K [G][u][D], then V [G][u][D], in the compute type
//     dkeys  of a rank, by chunk: dK [u][G][D], then dV [u][G][D], fp32
#pragma once
#include "backend/cpu/cpu_op.h"
#include "ir/zigzag.h"

typedef struct ring {
    const instruction *ins; // NULL: only sizes are computed
    const op_attrs *attrs;
    comm_group *group; // NULL: one rank
    int place;
    zigzag zigzag;
    int64_t u, rows, seq; // seq: tokens of a row on this rank
    dtype dt;
    int n_rep, head_dim;
    int groups, heads;      // of a pass
    int64_t keys_bytes;     // of a rank
    int64_t dkeys_floats;   // likewise
    int head_blocks;        // of the query heads of a group on this rank, in sums over them
    int replicas;           // tensor ranks that share the group
    int64_t run_floats;     // elements of dkeys that one replica adds
    int n_slots, n_d_slots; // slots for pending partial sums of queries and of dkeys
} ring;

// `qkv` is an input of the node.
ring ring_of(const node *of, const tensor *qkv, const instruction *ins);
static inline bool ring_is_cut(const op_attrs *attrs) {
    return attrs->mesh.ranks > 1 || attrs->sum.row_blocks > 1;
}

// The position of a pass: the first group of heads of a row.
typedef struct ring_pass {
    const ring *r;
    int64_t row;
    int first_group;
} ring_pass;

static inline int64_t ring_token(const ring_pass *p, int chunk) {
    return zigzag_token(&p->r->zigzag, p->r->rows, p->row, chunk);
}
// Returns the shape of a pass for the kernels: queries of one chunk against keys of another.
attention_args ring_args(const ring *r);
// The inputs of the op, of all tokens here.
typedef struct ring_tokens {
    const void *qkv;
    const int32_t *position, *hidden; // hidden NULL: none
} ring_tokens;
// Sets the arguments for the queries of this rank's chunk `q` and the keys of chunk `k` of the rank
// at `source`. False: no query sees a key.
bool ring_pair(const ring_pass *p, const ring_tokens *tokens, int q, int source, int k,
        const char *keys, attention_args *args);

// Runs a kernel's units, each with a thread's scratch.
typedef void ring_unit_fn(const kernels *k, const attention_args *args, int64_t unit,
        void *scratch);
void ring_units(const ring *r, const attention_args *args, int64_t n_units, char *scratch,
        ring_unit_fn *fn);
// Calls fn for each block of a few tokens of this rank, on all threads: n tokens of a chunk, from
// its token `first` on.
typedef void ring_block_fn(void *ctx, int chunk, int64_t first, int64_t n);
void ring_blocks(const ring *r, ring_block_fn *fn, void *ctx);

// The keys that travel around the ring, double-buffered.
typedef struct ring_keys {
    const ring *r;
    char *buffer[2];
    int current; // the buffer that is read
    comm_transfer moving[2];
    int n_moving;
} ring_keys;
// Fills the first buffer with the keys of this rank.
void ring_keys_pack(ring_keys *k, const ring_pass *p, const char *qkv);
// Starts sending the current buffer to the next rank; hops count from 0.
void ring_keys_start(ring_keys *k, int hop);
DRV_CHECKED drv_status ring_keys_finish(ring_keys *k);
// Advances the messages between two pieces of work; waiting for them reports errors.
void ring_keys_test(ring_keys *k);
void ring_keys_cancel(ring_keys *k); // after a failure
// Returns the rank whose keys are in the current buffer in a hop.
static inline int ring_source(const ring *r, int hop) {
    return (r->place + r->zigzag.ranks - hop) % r->zigzag.ranks;
}

// Allocates bytes of the workspace and adds them to *used; base NULL: only adds them.
static inline void *ring_take(char *base, int64_t *used, int64_t bytes) {
    char *taken = base ? base + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return taken;
}

// Runs fn(ctx) for each pass of each row; sets *pass before. Returns the first failure.
DRV_CHECKED drv_status ring_run(ring_pass *pass, drv_status (*fn)(void *ctx), void *ctx);

// --- the two directions
void ring_forward(const instruction *ins);
int64_t ring_forward_workspace(const node *n, int n_threads);
void ring_backward(const instruction *ins);
int64_t ring_backward_workspace(const node *n, int n_threads);
