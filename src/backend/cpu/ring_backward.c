// The backward pass of the ring. With the lse of whole rows the gradients of a pair of chunks stand
// alone: those of the queries are added up over leaves of keys, where the queries are; those of
// keys and values over leaves of queries, where the keys are: each rank sends its part to that one.
#include <string.h>

#include "backend/cpu/ring_pass.h"
#include "backend/cpu/ring_tree.h"

typedef struct backward {
    ring_pass pass;
    ring_keys keys;
    ring_tree queries, dkeys;
    float *dq;       // slots of the first tree, by chunk [u][H][D]
    float *dk;       // slots of the second, see ring.h
    float *parts[2]; // of what this rank finds for another, lane by lane; one is under way
    float *part;     // of the kernels
    char *scratch;
    comm_transfer moving[2]; // of dkeys: what is received, what is sent
    int received, from;      // its slot, -1: nothing is under way; the rank that it comes from
} backward;

static int64_t place_all(const ring *r, char *base, int n_threads, backward *out) {
    const attention_args args = ring_args(r);
    const int64_t dq_bytes = r->seq * r->heads * r->head_dim * (int64_t)sizeof(float),
                  dk_bytes = r->dkeys_floats * (int64_t)sizeof(float);
    const int n_buffers = r->cut.ranks > 1 ? 2 : 1;
    int64_t used = 0;
    for (int i = 0; i < n_buffers; i++) {
        out->keys.buffer[i] = ring_take(base, &used, r->keys_bytes);
        out->parts[i] = ring_take(base, &used, r->cut.lanes * dk_bytes);
    }
    out->dq = ring_take(base, &used, r->n_slots * dq_bytes);
    out->dk = ring_take(base, &used, r->n_d_slots * dk_bytes);
    out->part = ring_take(base, &used, attention_part_floats(&args) * (int64_t)sizeof(float));
    out->scratch = ring_take(base, &used, n_threads * attention_scratch_bytes(&args));
    return used;
}

// --- sums of arrays
typedef struct add_call {
    float *to;
    const float *from;
    int64_t n;
} add_call;

enum { ADD_CHUNK = 1 << 14 }; // elements

static void add_chunk(void *arg, int64_t i, int thread) {
    (void)thread;
    const add_call *call = arg;
    const int64_t first = i * ADD_CHUNK, left = call->n - first,
                  n = left < ADD_CHUNK ? left : ADD_CHUNK;
    float *to = call->to + first;
    const float *from = call->from + first;
    for (int64_t k = 0; k < n; k++)
        to[k] += from[k];
}

static void add_floats(float *to, const float *from, int64_t n) {
    add_call call = {to, from, n};
    par_for((n + ADD_CHUNK - 1) / ADD_CHUNK, add_chunk, &call);
}

static int64_t dq_floats(const ring *r) {
    return r->seq * r->heads * r->head_dim;
}

static void join_dq(void *ctx, int left, int right) {
    const backward *b = ctx;
    const int64_t n = dq_floats(b->pass.r);
    add_floats(b->dq + left * n, b->dq + right * n, n);
}

static void join_dkeys(void *ctx, int left, int right) {
    const backward *b = ctx;
    const int64_t n = b->pass.r->dkeys_floats;
    add_floats(b->dk + left * n, b->dk + right * n, n);
}

// What the leaves of queries of this rank give, in the tree of all: into the first.
static void join_lanes(const backward *b, float *parts, int first, int end) {
    const int64_t n = b->pass.r->dkeys_floats;
    const int middle = first + (end - first) / 2;
    if (end - first == 1) return;
    join_lanes(b, parts, first, middle);
    join_lanes(b, parts, middle, end);
    add_floats(parts + first * n, parts + middle * n, n);
}

// --- pairs of chunks
static void grad_unit(const kernels *k, const attention_args *args, int64_t unit, void *scratch) {
    k->attention_grad(args, unit, scratch);
}

static void sum_unit(const kernels *k, const attention_args *args, int64_t unit, void *scratch) {
    (void)scratch;
    k->attention_grad_sum(args, unit);
}

static void pair_gradients(backward *sums, int slot, float *dkeys, int query, int source, int key) {
    const ring *shape = sums->pass.r;
    const instruction *ins = shape->ins;
    const int64_t d = shape->head_dim, t = ring_token(&sums->pass, query),
                  tokens = ins->node->in[1]->dim[0],
                  head = (int64_t)sums->pass.first_group * shape->n_rep,
                  o_width = ins->node->in[0]->dim[1], kv = shape->u * shape->groups * d;
    attention_args args = ring_args(shape);
    if (!ring_pair(&sums->pass, ins->in[1], ins->in[4], query, source, key,
                sums->keys.buffer[sums->keys.at], &args))
        return;
    args.o_width = o_width;
    args.d_o = input_at(ins, 0, t * o_width + head * d);
    args.o = (void *)(uintptr_t)input_at(ins, 2, t * o_width + head * d);
    args.lse = (void *)(uintptr_t)input_at(ins, 3, head * tokens + t);
    args.lse_stride = tokens;
    args.part = sums->part;
    args.dq = sums->dq + slot * dq_floats(shape) + query * shape->u * shape->heads * d;
    args.dk = dkeys + key * 2 * kv;
    args.dv = (float *)args.dk + kv;
    ring_units(shape, &args, attention_grad_units(&args), sums->scratch, grad_unit);
    ring_units(shape, &args, attention_sum_units(&args), sums->scratch, sum_unit);
    ring_keys_test(&sums->keys);
}

static void leaf_gradients(backward *b, float *parts, int source, int lane) {
    const ring *r = b->pass.r;
    const int slot = ring_tree_take(&b->queries), leaf = source * r->cut.lanes + lane;
    memset(b->dq + slot * dq_floats(r), 0, sizeof *b->dq * (size_t)dq_floats(r));
    for (int q = 0; q < zigzag_chunks(&r->cut); q++)
        for (int half = 0; half < ZIGZAG_HALVES; half++)
            pair_gradients(b, slot, parts + q / ZIGZAG_HALVES * r->dkeys_floats, q, source,
                    lane * ZIGZAG_HALVES + half);
    ring_tree_add(&b->queries, (leaf_run){leaf, leaf + 1}, slot);
}

// --- gradients of keys on their way home
static void add_dkeys(backward *b, int rank, int slot) {
    const int lanes = b->pass.r->cut.lanes;
    ring_tree_add(&b->dkeys, (leaf_run){rank * lanes, (rank + 1) * lanes}, slot);
}

static drv_status finish_dkeys(backward *b) {
    if (b->received < 0) return DRV_OK;
    const int slot = b->received;
    b->received = -1;
    DRV_TRY(comm_wait(b->pass.r->group, "attention: gradients of keys", b->moving, 2));
    add_dkeys(b, b->from, slot);
    return DRV_OK;
}

// parts: of the rank whose keys were there in this hop.
static drv_status send_dkeys(backward *b, int hop, const float *parts) {
    const ring *r = b->pass.r;
    const int64_t bytes = r->dkeys_floats * (int64_t)sizeof(float);
    if (hop == 0) {
        const int slot = ring_tree_take(&b->dkeys);
        memcpy(b->dk + slot * r->dkeys_floats, parts, (size_t)bytes);
        add_dkeys(b, r->place, slot);
        return DRV_OK;
    }
    DRV_TRY(finish_dkeys(b));
    b->received = ring_tree_take(&b->dkeys);
    b->from = (r->place + hop) % r->cut.ranks;
    comm_receive(r->group, b->from, b->dk + b->received * r->dkeys_floats, bytes, &b->moving[0]);
    comm_send(r->group, ring_source(r, hop), parts, bytes, &b->moving[1]);
    return DRV_OK;
}

static drv_status run_hop(backward *b, int hop) {
    const ring *r = b->pass.r;
    const int lanes = r->cut.lanes, source = ring_source(r, hop);
    float *parts = b->parts[hop % 2];
    ring_keys_start(&b->keys, hop);
    memset(parts, 0, sizeof *parts * (size_t)(lanes * r->dkeys_floats));
    for (int lane = lanes - 1; lane >= 0; lane--)
        leaf_gradients(b, parts, source, lane);
    join_lanes(b, parts, 0, lanes);
    DRV_TRY(ring_keys_finish(&b->keys));
    return send_dkeys(b, hop, parts);
}

// --- outputs
static void put_rounded(const ring *r, int64_t at, const float *from, int64_t n) {
    const dtype dt = r->ins->node->out[0]->dt; // a partial sum is not rounded
    char *to = output_at(r->ins, 0, at);
    for (int64_t i = 0; i < n; i++)
        if (dt == DT_BF16)
            ((uint16_t *)(void *)to)[i] = f32_to_bf16(from[i]);
        else
            ((float *)(void *)to)[i] = from[i];
}

static void put_block(void *ctx, int chunk, int64_t first, int64_t n) {
    const backward *b = ctx;
    const ring *r = b->pass.r;
    const op_attrs *attrs = r->attrs;
    const int64_t d = r->head_dim, q_width = r->heads * d, kv_width = r->groups * d,
                  all = r->ins->node->in[1]->dim[1];
    const float *dq = b->dq + ring_tree_result(&b->queries) * dq_floats(r) + chunk * r->u * q_width,
                *dk = b->dk + ring_tree_result(&b->dkeys) * r->dkeys_floats +
                      chunk * 2 * r->u * kv_width,
                *dv = dk + r->u * kv_width;
    for (int64_t t = first; t < first + n; t++) {
        const int64_t row = (ring_token(&b->pass, chunk) + t) * all, group = b->pass.first_group;
        put_rounded(r, row + group * r->n_rep * d, dq + t * q_width, q_width);
        put_rounded(r, row + (attrs->n_heads + group) * d, dk + t * kv_width, kv_width);
        put_rounded(r, row + (attrs->n_heads + attrs->n_kv_heads + group) * d, dv + t * kv_width,
                kv_width);
    }
}

static drv_status run_pass(backward *b) {
    const ring *r = b->pass.r;
    b->queries = (ring_tree){.n_leaves = zigzag_leaves(&r->cut),
            .n_slots = r->n_slots,
            .join = join_dq,
            .ctx = b};
    b->dkeys = (ring_tree){.n_leaves = zigzag_leaves(&r->cut),
            .n_slots = r->n_d_slots,
            .join = join_dkeys,
            .ctx = b};
    b->received = -1;
    ring_keys_pack(&b->keys, &b->pass, r->ins->in[1]);
    for (int hop = 0; hop < r->cut.ranks; hop++)
        DRV_TRY(run_hop(b, hop));
    DRV_TRY(finish_dkeys(b));
    ring_blocks(r, put_block, b);
    return DRV_OK;
}

void ring_backward(const instruction *ins) {
    const ring r = ring_of(ins->node, ins->node->in[1], ins);
    backward b = {.pass.r = &r, .keys.r = &r};
    place_all(&r, ins->workspace, par_threads(), &b);
    for (b.pass.row = 0; b.pass.row < r.rows; b.pass.row++)
        for (b.pass.first_group = 0; b.pass.first_group < r.attrs->n_kv_heads;
                b.pass.first_group += r.groups) {
            *ins->failed = run_pass(&b);
            if (*ins->failed == DRV_OK) continue;
            ring_keys_cancel(&b.keys);
            if (b.received >= 0) comm_cancel(r.group, b.moving, 2);
            return;
        }
}

int64_t ring_backward_workspace(const node *n, int n_threads) {
    const ring r = ring_of(n, n->in[1], NULL);
    backward b;
    return place_all(&r, NULL, n_threads, &b);
}
