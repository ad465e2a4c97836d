// The backward pass of the ring. Given the lse of whole rows, the gradients of a pair of chunks do
// not depend on other chunks. Gradients of queries are summed over reduction blocks of keys, on the
// rank of the queries; gradients of keys and values are summed over reduction blocks of queries, on
// the rank of the keys, to which the other ranks send their parts.
//
// The part of one reduction block of queries is a sum over the query heads of a group, itself a
// tree over reduction blocks of heads, which is added first (docs/adr/0015). If tensor ranks share
// the key-value head (docs/adr/0018), each has some of these blocks: after every hop each rank adds
// one range of the elements over the replicas, and only that range travels along the ring. At the
// end all ranks get all ranges, rounded.
#include <string.h>

#include "backend/cpu/ring_pass.h"
#include "backend/cpu/ring_tree.h"
#include "base/round.h"
#include "comm/join.h"
#include "ir/wire.h"

typedef struct backward {
    ring_pass pass;
    ring_keys keys;
    ring_tree queries, dkeys;
    float *dq;       // slots of the tree `queries`, by chunk [u][H][D]
    float *dk;       // slots of the tree `dkeys`, a range of dkeys each (ring_pass.h)
    float *parts[2]; // gradients for another rank, block by block; one buffer is being sent
    float *found; // like parts, but [..][reduction block of heads][D] instead of [..][D]; NULL: one
                  // block
    float *whole; // dkeys block by block, before replicas divide them; NULL: no replicas
    char *join;   // scratch for dividing them
    char *rounded; // dkeys in the compute type, of all replicas; NULL: no replicas
    float *part;   // partial sums of the kernels
    char *scratch;
    comm_transfer moving[2]; // of dkeys: the receive and the send
    int received, from;      // slot of the receive, -1: none is pending; rank that sends it
} backward;

static int64_t place_all(const ring *shape, char *base, int n_threads, backward *out) {
    const attention_args args = ring_args(shape);
    const int64_t dq_bytes = shape->seq * shape->heads * shape->head_dim * (int64_t)sizeof(float),
                  dk_bytes = shape->run_floats * (int64_t)sizeof(float),
                  all_bytes =
                          shape->zigzag.blocks_here * shape->dkeys_floats * (int64_t)sizeof(float);
    const int n_buffers = shape->zigzag.ranks > 1 ? 2 : 1;
    int64_t used = 0;
    for (int i = 0; i < n_buffers; i++) {
        out->keys.buffer[i] = ring_take(base, &used, shape->keys_bytes);
        out->parts[i] = ring_take(base, &used, shape->zigzag.blocks_here * dk_bytes);
    }
    out->dq = ring_take(base, &used, shape->n_slots * dq_bytes);
    out->dk = ring_take(base, &used, shape->n_d_slots * dk_bytes);
    if (shape->head_blocks > 1) out->found = ring_take(base, &used, shape->head_blocks * all_bytes);
    if (shape->replicas > 1) {
        out->whole = ring_take(base, &used, all_bytes);
        out->join = ring_take(base, &used,
                wire_scratch(DT_F32, shape->dkeys_floats, (int)shape->replicas));
        out->rounded = ring_take(base, &used, shape->keys_bytes);
    }
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

static void add_chunk(void *arg, int64_t i) {
    const add_call *call = arg;
    const int64_t first = i * ADD_CHUNK, n = chunk_length(call->n, ADD_CHUNK, i);
    float *to = call->to + first;
    const float *from = call->from + first;
    for (int64_t k = 0; k < n; k++)
        to[k] += from[k];
}

static void add_floats(float *to, const float *from, int64_t n) {
    add_call call = {to, from, n};
    par_for(div_up(n, ADD_CHUNK), add_chunk, &call);
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
    const int64_t n = b->pass.r->run_floats;
    add_floats(b->dk + left * n, b->dk + right * n, n);
}

// Adds the parts of this rank's reduction blocks of queries, a subtree, into the first one.
static void join_blocks(const backward *b, float *parts, int first, int end) {
    const int64_t n = b->pass.r->run_floats;
    const int middle = first + (end - first) / 2;
    if (end - first == 1) return;
    join_blocks(b, parts, first, middle);
    join_blocks(b, parts, middle, end);
    add_floats(parts + first * n, parts + middle * n, n);
}

// Adds the reduction blocks of heads: found [n][block][D] -> to [n][D].
typedef struct heads_call {
    const float *found;
    float *to;
    int64_t n, head_dim;
    int blocks;
} heads_call;

enum { HEADS_CHUNK = 256 }; // elements of n

static void join_heads_chunk(void *arg, int64_t c) {
    const heads_call *call = arg;
    const void *block[MAX_REDUCTION_BLOCKS];
    const int64_t first = c * HEADS_CHUNK, end = first + chunk_length(call->n, HEADS_CHUNK, c);
    for (int64_t i = first; i < end; i++) {
        for (int k = 0; k < call->blocks; k++)
            block[k] = call->found + (i * call->blocks + k) * call->head_dim;
        join_parts(DT_F32, COMM_SUM, block, call->blocks, call->head_dim,
                call->to + i * call->head_dim);
    }
}

static void join_heads(const ring *r, const float *found, float *to) {
    heads_call call = {.found = found,
            .to = to,
            .n = r->zigzag.blocks_here * r->dkeys_floats / r->head_dim,
            .head_dim = r->head_dim,
            .blocks = r->head_blocks};
    par_for(div_up(call.n, HEADS_CHUNK), join_heads_chunk, &call);
}

// --- pairs of chunks
static void grad_unit(const kernels *k, const attention_args *args, int64_t unit, void *scratch) {
    k->attention_grad(args, unit, scratch);
}

static void sum_unit(const kernels *k, const attention_args *args, int64_t unit,
        void *scratch DRV_UNUSED) {
    k->attention_grad_sum(args, unit);
}

static void pair_gradients(backward *sums, int slot, float *dkeys, int query, int source, int key) {
    const ring *shape = sums->pass.r;
    const instruction *ins = shape->ins;
    const int64_t token = ring_token(&sums->pass, query), tokens = ins->node->in[1]->dim[0],
                  head = (int64_t)sums->pass.first_group * shape->n_rep,
                  o_width = ins->node->in[0]->dim[1],
                  kv = shape->u * shape->groups * shape->head_dim;
    attention_args args = ring_args(shape);
    const ring_tokens here = {ins->in[1], ins->in[4], ins->node->n_in > 5 ? ins->in[5] : NULL};
    if (!ring_pair(&sums->pass, &here, query, source, key, sums->keys.buffer[sums->keys.current],
                &args))
        return;
    args.o_width = o_width;
    args.d_o = input_at(ins, 0, token * o_width + head * shape->head_dim);
    args.o = (void *)(uintptr_t)input_at(ins, 2, token * o_width + head * shape->head_dim);
    args.lse = (void *)(uintptr_t)input_at(ins, 3, head * tokens + token);
    args.lse_stride = tokens;
    args.part = sums->part;
    args.dq =
            sums->dq + slot * dq_floats(shape) + query * shape->u * shape->heads * shape->head_dim;
    ring_units(shape, &args, attention_grad_units(&args), sums->scratch, grad_unit);
    args.n_kv_heads *= shape->head_blocks; // each reduction block of heads is a group of its own
    args.dk = dkeys + key * 2 * kv * shape->head_blocks;
    args.dv = (float *)args.dk + kv * shape->head_blocks;
    ring_units(shape, &args, attention_sum_units(&args), sums->scratch, sum_unit);
    ring_keys_test(&sums->keys);
}

static void block_gradients(backward *b, float *parts, int source, int own_block) {
    const ring *r = b->pass.r;
    const int slot = ring_tree_take(&b->queries),
              block = source * r->zigzag.blocks_here + own_block;
    memset(b->dq + slot * dq_floats(r), 0, sizeof *b->dq * (size_t)dq_floats(r));
    for (int q = 0; q < zigzag_chunks(&r->zigzag); q++)
        for (int half = 0; half < ZIGZAG_HALVES; half++)
            pair_gradients(b, slot, parts + q / ZIGZAG_HALVES * r->dkeys_floats * r->head_blocks, q,
                    source, own_block * ZIGZAG_HALVES + half);
    ring_tree_add(&b->queries, (block_run){block, block + 1}, slot);
}

// --- gradients of keys on their way home
static void add_dkeys(backward *b, int rank, int slot) {
    const int row_blocks = b->pass.r->zigzag.blocks_here;
    ring_tree_add(&b->dkeys, (block_run){rank * row_blocks, (rank + 1) * row_blocks}, slot);
}

static drv_status finish_dkeys(backward *b) {
    if (b->received < 0) return DRV_OK;
    const int slot = b->received;
    b->received = -1;
    DRV_TRY(comm_wait(b->pass.r->group, "attention: gradients of keys", b->moving, 2));
    add_dkeys(b, b->from, slot);
    return DRV_OK;
}

// Sends the gradients of the keys of this hop to the rank that owns the keys.
static drv_status send_dkeys(backward *b, int hop, const float *parts) {
    const ring *r = b->pass.r;
    const int64_t bytes = r->run_floats * (int64_t)sizeof(float);
    if (hop == 0) {
        const int slot = ring_tree_take(&b->dkeys);
        memcpy(b->dk + slot * r->run_floats, parts, (size_t)bytes);
        add_dkeys(b, r->place, slot);
        return DRV_OK;
    }
    DRV_TRY(finish_dkeys(b));
    b->received = ring_tree_take(&b->dkeys);
    b->from = (r->place + hop) % r->zigzag.ranks;
    comm_receive(r->group, b->from, b->dk + b->received * r->run_floats, bytes, &b->moving[0]);
    comm_send(r->group, ring_source(r, hop), parts, bytes, &b->moving[1]);
    return DRV_OK;
}

// Adds the parts of the replicas for the same reduction blocks: each rank one range of elements.
static drv_status join_replicas(const backward *b, float *runs) {
    const ring *r = b->pass.r;
    for (int own_block = 0; own_block < r->zigzag.blocks_here; own_block++)
        DRV_TRY(comm_reduce_scatter(r->ins->replicas, DT_F32, COMM_SUM,
                b->whole + own_block * r->dkeys_floats, r->dkeys_floats, NULL,
                runs + own_block * r->run_floats, b->join));
    return DRV_OK;
}

static drv_status run_hop(backward *b, int hop) {
    const ring *r = b->pass.r;
    const int row_blocks = r->zigzag.blocks_here, source = ring_source(r, hop);
    float *parts = b->parts[hop % 2], *whole = b->whole ? b->whole : parts,
          *found = b->found ? b->found : whole;
    ring_keys_start(&b->keys, hop);
    memset(found, 0, sizeof *found * (size_t)(row_blocks * r->dkeys_floats * r->head_blocks));
    for (int own_block = row_blocks - 1; own_block >= 0; own_block--)
        block_gradients(b, found, source, own_block);
    if (b->found) join_heads(r, found, whole);
    if (b->whole) DRV_TRY(join_replicas(b, parts));
    join_blocks(b, parts, 0, row_blocks);
    DRV_TRY(ring_keys_finish(&b->keys));
    return send_dkeys(b, hop, parts);
}

// --- outputs
static void put_rounded(const ring *r, void *to, const float *from, int64_t n) {
    if (r->dt != DT_BF16) {
        memcpy(to, from, sizeof *from * (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((uint16_t *)to)[i] = f32_to_bf16(from[i]);
}

// Rounds this rank's range of dkeys, and gathers the ranges of all replicas.
static drv_status gather_dkeys(const backward *b) {
    const ring *r = b->pass.r;
    const int64_t bytes = r->run_floats * dtype_bytes(r->dt);
    char *mine = b->rounded + group_place(r->ins->replicas) * bytes;
    put_rounded(r, mine, b->dk + ring_tree_result(&b->dkeys) * r->run_floats, r->run_floats);
    return comm_all_gather(r->ins->replicas, mine, bytes, NULL, b->rounded);
}

// Writes n elements of dkeys, from element `from` on, to element `to` of the output.
static void put_dkeys(const backward *b, int64_t to, int64_t from, int64_t n) {
    const ring *r = b->pass.r;
    const int64_t unit = dtype_bytes(r->dt);
    if (b->rounded)
        memcpy(output_at(r->ins, 0, to), b->rounded + from * unit, (size_t)(n * unit));
    else
        put_rounded(r, output_at(r->ins, 0, to),
                b->dk + ring_tree_result(&b->dkeys) * r->run_floats + from, n);
}

static void put_block(void *ctx, int chunk, int64_t first, int64_t n) {
    const backward *b = ctx;
    const ring *r = b->pass.r;
    const op_attrs *attrs = r->attrs;
    const int64_t d = r->head_dim, q_width = r->heads * d, kv_width = r->groups * d,
                  all = r->ins->node->in[1]->dim[1];
    const int64_t dk = chunk * 2 * r->u * kv_width, dv = dk + r->u * kv_width;
    const float *dq = b->dq + ring_tree_result(&b->queries) * dq_floats(r) + chunk * r->u * q_width;
    for (int64_t t = first; t < first + n; t++) {
        const int64_t row = (ring_token(&b->pass, chunk) + t) * all, group = b->pass.first_group;
        put_rounded(r, output_at(r->ins, 0, row + group * r->n_rep * d), dq + t * q_width, q_width);
        put_dkeys(b, row + (attrs->heads.n_heads + group) * d, dk + t * kv_width, kv_width);
        put_dkeys(b, row + (attrs->heads.n_heads + attrs->heads.n_kv_heads + group) * d,
                dv + t * kv_width, kv_width);
    }
}

static drv_status run_pass(void *ctx) {
    backward *b = ctx;
    const ring *r = b->pass.r;
    b->queries = (ring_tree){.n_blocks = zigzag_blocks(&r->zigzag),
            .n_slots = r->n_slots,
            .join = join_dq,
            .ctx = b};
    b->dkeys = (ring_tree){.n_blocks = zigzag_blocks(&r->zigzag),
            .n_slots = r->n_d_slots,
            .join = join_dkeys,
            .ctx = b};
    b->received = -1;
    ring_keys_pack(&b->keys, &b->pass, r->ins->in[1]);
    for (int hop = 0; hop < r->zigzag.ranks; hop++)
        DRV_TRY(run_hop(b, hop));
    DRV_TRY(finish_dkeys(b));
    if (b->rounded) DRV_TRY(gather_dkeys(b));
    ring_blocks(r, put_block, b);
    return DRV_OK;
}

void ring_backward(const instruction *ins) {
    const ring r = ring_of(ins->node, ins->node->in[1], ins);
    backward b = {.pass.r = &r, .keys.r = &r};
    place_all(&r, ins->workspace, par_threads(), &b);
    *ins->failed = ring_run(&b.pass, run_pass, &b);
    if (*ins->failed == DRV_OK) return;
    ring_keys_cancel(&b.keys);
    if (b.received >= 0) comm_cancel(r.group, b.moving, 2);
}

int64_t ring_backward_workspace(const node *n, int n_threads) {
    const ring r = ring_of(n, n->in[1], NULL);
    backward b = {.pass.r = &r};
    return place_all(&r, NULL, n_threads, &b);
}
