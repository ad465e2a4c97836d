// Used by both directions of the ring: its shape, pairs of chunks, and the keys that travel.
#include "backend/cpu/ring_pass.h"

#include <string.h>

#include "backend/cpu/ring_tree.h"
#include "base/round.h"

enum { RING_BLOCK = 64 }; // tokens of a unit of work outside the kernels

// Returns the fewest groups of heads that give a team enough blocks of queries, by the shape only.
static int groups_of_pass(int n_groups, int64_t u) {
    enum { UNITS = 64 };
    const int64_t blocks = div_up(u, ATTENTION_BLOCK);
    for (int groups = 1; groups < n_groups; groups++)
        if (n_groups % groups == 0 && groups * blocks >= UNITS) return groups;
    return n_groups;
}

static int at_least_one(int n) {
    return n > 1 ? n : 1;
}

ring ring_of(const node *of, const tensor *qkv, const instruction *ins) {
    const op_attrs *attrs = &of->attrs;
    const int ranks = at_least_one(attrs->mesh.ranks),
              row_blocks = at_least_one(attrs->sum.row_blocks);
    ring made = {.ins = ins,
            .attrs = attrs,
            .group = ins ? ins->group : NULL,
            .place = ins && ins->group ? group_place(ins->group) : 0,
            .zigzag = {ranks, row_blocks, (int64_t)attrs->attention.seq * ranks},
            .seq = attrs->attention.seq,
            .rows = qkv->dim[0] / attrs->attention.seq,
            .dt = qkv->dt,
            .n_rep = attrs->heads.n_heads / attrs->heads.n_kv_heads,
            .head_dim = attrs->heads.head_dim,
            .n_slots = ring_tree_slots(ranks, row_blocks),
            .n_d_slots = ring_tree_slots(ranks, 1),
            .head_blocks = at_least_one(attrs->sum.blocks),
            .replicas = at_least_one(attrs->mesh.replicas)};
    made.u = zigzag_chunk_tokens(&made.zigzag);
    made.groups = groups_of_pass(attrs->heads.n_kv_heads, made.u);
    made.heads = made.groups * made.n_rep;
    made.dkeys_floats = 2 * made.seq * made.groups * made.head_dim;
    made.run_floats = made.dkeys_floats / made.replicas;
    made.keys_bytes = made.dkeys_floats * dtype_bytes(made.dt);
    return made;
}

attention_args ring_args(const ring *r) {
    const op_attrs *attrs = r->attrs;
    const int64_t q_width = (int64_t)attrs->heads.n_heads * r->head_dim,
                  kv_width = (int64_t)attrs->heads.n_kv_heads * r->head_dim;
    return (attention_args){.dt = r->dt,
            .seq = r->u,
            .n_heads = r->heads,
            .n_kv_heads = r->groups,
            .head_dim = r->head_dim,
            .window = attrs->attention.window,
            .capacity = r->u,
            .n_keys = r->u,
            .qkv_width = q_width + 2 * kv_width,
            .o_is_acc = true};
}

bool ring_pair(const ring_pass *p, const ring_tokens *tokens, int q, int source, int k,
        const char *keys, attention_args *args) {
    const ring *r = p->r;
    const int64_t unit = dtype_bytes(r->dt), t = ring_token(p, q),
                  kv_bytes = r->u * r->groups * r->head_dim * unit,
                  from = zigzag_chunk(&r->zigzag, source, k),
                  apart = zigzag_chunk(&r->zigzag, r->place, q) - from;
    args->first = apart * r->u;
    args->position = tokens->position + t;
    args->hidden = tokens->hidden ? tokens->hidden + 2 * t : NULL;
    args->hidden_from = from * r->u;
    args->qkv = (const char *)tokens->qkv +
                (t * args->qkv_width + (int64_t)p->first_group * r->n_rep * r->head_dim) * unit;
    args->keys = keys + k * 2 * kv_bytes;
    args->values = (const char *)args->keys + kv_bytes;
    // The first query sees the earliest tokens: documents follow each other.
    return apart >= 0 && attention_earliest(args, 0) < r->u;
}

// --- work
typedef struct unit_call {
    const ring *r;
    const attention_args *args;
    char *scratch;
    int64_t scratch_bytes; // of a thread
    ring_unit_fn *fn;
} unit_call;

static void run_unit(void *arg, int64_t unit) {
    const unit_call *call = arg;
    char *scratch = call->scratch + par_thread() * call->scratch_bytes;
    call->fn(call->r->ins->attention, call->args, unit, scratch);
}

void ring_units(const ring *r, const attention_args *args, int64_t n_units, char *scratch,
        ring_unit_fn *fn) {
    unit_call call = {.r = r,
            .args = args,
            .scratch = scratch,
            .scratch_bytes = attention_scratch_bytes(args),
            .fn = fn};
    par_for(n_units, run_unit, &call);
}

typedef struct block_call {
    const ring *r;
    ring_block_fn *fn;
    void *ctx;
} block_call;

static void run_block(void *arg, int64_t i) {
    const block_call *call = arg;
    const int64_t blocks = div_up(call->r->u, RING_BLOCK), first = i % blocks * RING_BLOCK,
                  left = call->r->u - first;
    call->fn(call->ctx, (int)(i / blocks), first, left < RING_BLOCK ? left : RING_BLOCK);
}

void ring_blocks(const ring *r, ring_block_fn *fn, void *ctx) {
    block_call call = {r, fn, ctx};
    par_for(zigzag_chunks(&r->zigzag) * div_up(r->u, RING_BLOCK), run_block, &call);
}

drv_status ring_run(ring_pass *pass, drv_status (*fn)(void *ctx), void *ctx) {
    const ring *r = pass->r;
    for (pass->row = 0; pass->row < r->rows; pass->row++)
        for (pass->first_group = 0; pass->first_group < r->attrs->heads.n_kv_heads;
                pass->first_group += r->groups)
            DRV_TRY(fn(ctx));
    return DRV_OK;
}

// --- keys
typedef struct pack_call {
    const ring_pass *p;
    const char *qkv;
    char *keys;
} pack_call;

static void pack_block(void *ctx, int chunk, int64_t first, int64_t n) {
    const pack_call *call = ctx;
    const ring *r = call->p->r;
    const op_attrs *attrs = r->attrs;
    const int64_t head_bytes = r->head_dim * dtype_bytes(r->dt),
                  kv_bytes = r->u * r->groups * head_bytes,
                  width = attrs->heads.n_heads + 2 * attrs->heads.n_kv_heads; // in heads
    for (int64_t t = first; t < first + n; t++)
        for (int which = 0; which < 2; which++)
            for (int g = 0; g < r->groups; g++) {
                const int64_t head = attrs->heads.n_heads + which * attrs->heads.n_kv_heads +
                                     call->p->first_group + g,
                              token = ring_token(call->p, chunk) + t;
                memcpy(call->keys + (2 * chunk + which) * kv_bytes + (g * r->u + t) * head_bytes,
                        call->qkv + (token * width + head) * head_bytes, (size_t)head_bytes);
            }
}

void ring_keys_pack(ring_keys *k, const ring_pass *p, const char *qkv) {
    pack_call call = {p, qkv, k->buffer[0]};
    k->current = k->n_moving = 0;
    ring_blocks(k->r, pack_block, &call);
}

void ring_keys_start(ring_keys *k, int hop) {
    const ring *r = k->r;
    const int ranks = r->zigzag.ranks;
    if (hop == ranks - 1) return;
    comm_receive(r->group, (r->place + ranks - 1) % ranks, k->buffer[!k->current], r->keys_bytes,
            &k->moving[0]);
    comm_send(r->group, (r->place + 1) % ranks, k->buffer[k->current], r->keys_bytes,
            &k->moving[1]);
    k->n_moving = 2;
}

drv_status ring_keys_finish(ring_keys *k) {
    if (k->n_moving == 0) return DRV_OK;
    k->n_moving = 0;
    DRV_TRY(comm_wait(k->r->group, "attention: keys", k->moving, 2));
    k->current = !k->current;
    return DRV_OK;
}

void ring_keys_test(ring_keys *k) {
    bool done;
    if (k->n_moving && comm_test(k->r->group, k->moving, k->n_moving, &done) != DRV_OK) return;
}

void ring_keys_cancel(ring_keys *k) {
    if (k->n_moving) comm_cancel(k->r->group, k->moving, k->n_moving);
    k->n_moving = 0;
}
