// The forward pass of the ring. For each reduction block of keys it computes a partial result, o
// and lse as if there were no other keys, and combines two of them by
//     lse = log(exp(lse1) + exp(lse2)),  o = exp(lse1 - lse) o1 + exp(lse2 - lse) o2.
#include <math.h>
#include <string.h>

#include "backend/cpu/ring_pass.h"
#include "backend/cpu/ring_tree.h"
#include "base/elementary.h"

// A slot holds, by chunk: o [u][H][D], then lse [H][u], fp32.
typedef struct forward {
    ring_pass pass;
    ring_keys keys;
    ring_tree tree;
    float *slots, *extra; // extra: one chunk
    bool *seen;           // by slot and chunk: whether a query has seen a key
    char *scratch;
    int64_t chunk_floats;
} forward;

static int64_t place_all(const ring *r, char *base, int n_threads, forward *out) {
    const attention_args args = ring_args(r);
    const int n_chunks = zigzag_chunks(&r->zigzag);
    int64_t used = 0;
    out->chunk_floats = r->u * r->heads * (r->head_dim + 1);
    const int64_t chunk_bytes = out->chunk_floats * (int64_t)sizeof(float);
    for (int i = 0; i < (r->zigzag.ranks > 1 ? 2 : 1); i++)
        out->keys.buffer[i] = ring_take(base, &used, r->keys_bytes);
    out->slots = ring_take(base, &used, r->n_slots * n_chunks * chunk_bytes);
    out->extra = ring_take(base, &used, chunk_bytes);
    out->seen = ring_take(base, &used, r->n_slots * n_chunks * (int64_t)sizeof(bool));
    out->scratch = ring_take(base, &used, n_threads * attention_scratch_bytes(&args));
    return used;
}

static float *chunk_of_slot(const forward *f, int slot, int chunk) {
    return f->slots + (slot * zigzag_chunks(&f->pass.r->zigzag) + chunk) * f->chunk_floats;
}
static bool *seen_of(const forward *f, int slot, int chunk) {
    return &f->seen[slot * zigzag_chunks(&f->pass.r->zigzag) + chunk];
}

// --- joins
typedef struct join_call {
    const forward *f;
    int chunk; // -1: all chunks of two slots
    float *left;
    const float *right;
    int left_slot, right_slot;
} join_call;

static float exp_of(float x) {
    return (float)drv_exp((double)x);
}

// Combines the partial results of `right` into `left`.
static void join_rows(const ring *r, float *left, const float *right, int64_t first, int64_t n) {
    const int64_t d = r->head_dim, lse = r->u * r->heads * d;
    for (int64_t t = first; t < first + n; t++)
        for (int64_t h = 0; h < r->heads; h++) {
            float *a = &left[lse + h * r->u + t], *o = left + (t * r->heads + h) * d;
            const float b = right[lse + h * r->u + t], *add = right + (t * r->heads + h) * d;
            if (b == -HUGE_VALF) continue;
            const float top = *a > b ? *a : b, both = exp_of(*a - top) + exp_of(b - top),
                        sum = top + (float)drv_log((double)both), keep = exp_of(*a - sum),
                        share = exp_of(b - sum);
            *a = sum;
            for (int64_t i = 0; i < d; i++)
                o[i] = keep * o[i] + share * add[i];
        }
}

static void join_block(void *ctx, int chunk, int64_t first, int64_t n) {
    const join_call *call = ctx;
    const forward *f = call->f;
    if (call->chunk >= 0) {
        if (chunk == call->chunk) join_rows(f->pass.r, call->left, call->right, first, n);
        return;
    }
    if (!*seen_of(f, call->right_slot, chunk)) return;
    float *left = chunk_of_slot(f, call->left_slot, chunk);
    const float *right = chunk_of_slot(f, call->right_slot, chunk);
    if (*seen_of(f, call->left_slot, chunk)) {
        join_rows(f->pass.r, left, right, first, n);
        return;
    }
    const ring *r = f->pass.r;
    const int64_t width = (int64_t)r->heads * r->head_dim, lse = r->u * width;
    memcpy(left + first * width, right + first * width, sizeof *left * (size_t)(n * width));
    for (int64_t h = 0; h < r->heads; h++)
        memcpy(left + lse + h * r->u + first, right + lse + h * r->u + first,
                sizeof *left * (size_t)n);
}

static void join_slots(void *ctx, int left, int right) {
    const forward *f = ctx;
    join_call call = {.f = f, .chunk = -1, .left_slot = left, .right_slot = right};
    ring_blocks(f->pass.r, join_block, &call);
    for (int c = 0; c < zigzag_chunks(&f->pass.r->zigzag); c++)
        *seen_of(f, left, c) |= *seen_of(f, right, c);
}

// --- partial results
static void forward_unit(const kernels *k, const attention_args *args, int64_t unit,
        void *scratch) {
    k->attention(args, unit, scratch);
}

// Adds the attention of the queries of chunk q to chunk k of the current keys.
static void attend(forward *f, int slot, int q, int source, int k) {
    const ring *r = f->pass.r;
    const instruction *ins = r->ins;
    attention_args args = ring_args(r);
    const ring_tokens tokens = {ins->in[0], ins->in[1], ins->node->n_in > 2 ? ins->in[2] : NULL};
    if (!ring_pair(&f->pass, &tokens, q, source, k, f->keys.buffer[f->keys.current], &args)) return;
    bool *seen = seen_of(f, slot, q);
    float *whole = chunk_of_slot(f, slot, q), *part = *seen ? f->extra : whole;
    args.o = part;
    args.lse = part + r->u * r->heads * r->head_dim;
    args.lse_stride = r->u;
    ring_units(r, &args, attention_units(&args), f->scratch, forward_unit);
    if (*seen) {
        join_call call = {.f = f, .chunk = q, .left = whole, .right = part};
        ring_blocks(r, join_block, &call);
    }
    *seen = true;
    ring_keys_test(&f->keys);
}

static void attend_block(forward *f, int source, int own_block) {
    const zigzag *z = &f->pass.r->zigzag;
    const int slot = ring_tree_take(&f->tree), block = source * z->blocks_here + own_block;
    for (int q = 0; q < zigzag_chunks(z); q++) {
        *seen_of(f, slot, q) = false;
        for (int half = 0; half < ZIGZAG_HALVES; half++)
            attend(f, slot, q, source, own_block * ZIGZAG_HALVES + half);
    }
    ring_tree_add(&f->tree, (block_run){block, block + 1}, slot);
}

// --- outputs
typedef struct output_call {
    const forward *f;
    int slot;
} output_call;

static void put_block(void *ctx, int chunk, int64_t first, int64_t n_tokens) {
    const output_call *call = ctx;
    const ring_pass *p = &call->f->pass;
    const ring *r = p->r;
    const instruction *ins = r->ins;
    const int64_t width = (int64_t)r->heads * r->head_dim,
                  head = (int64_t)p->first_group * r->n_rep, tokens = ins->node->in[0]->dim[0],
                  all = ins->node->out[0]->dim[1];
    const float *from = chunk_of_slot(call->f, call->slot, chunk), *lse = from + r->u * width;
    for (int64_t t = first; t < first + n_tokens; t++) {
        const int64_t token = ring_token(p, chunk) + t;
        char *o = output_at(ins, 0, token * all + head * r->head_dim);
        for (int64_t i = 0; i < width; i++) {
            const float x = from[t * width + i];
            if (r->dt == DT_BF16)
                ((uint16_t *)(void *)o)[i] = f32_to_bf16(x);
            else
                ((float *)(void *)o)[i] = x;
        }
        for (int64_t h = 0; h < r->heads; h++)
            ((float *)ins->out[1])[(head + h) * tokens + token] = lse[h * r->u + t];
    }
}

static drv_status run_pass(void *ctx) {
    forward *f = ctx;
    const ring *r = f->pass.r;
    f->tree = (ring_tree){.n_blocks = zigzag_blocks(&r->zigzag),
            .n_slots = r->n_slots,
            .join = join_slots,
            .ctx = f};
    ring_keys_pack(&f->keys, &f->pass, r->ins->in[0]);
    for (int hop = 0; hop < r->zigzag.ranks; hop++) {
        ring_keys_start(&f->keys, hop);
        for (int own_block = r->zigzag.blocks_here - 1; own_block >= 0; own_block--)
            attend_block(f, ring_source(r, hop), own_block);
        DRV_TRY(ring_keys_finish(&f->keys));
    }
    output_call call = {f, ring_tree_result(&f->tree)};
    ring_blocks(r, put_block, &call);
    return DRV_OK;
}

void ring_forward(const instruction *ins) {
    const ring r = ring_of(ins->node, ins->node->in[0], ins);
    forward f = {.pass.r = &r, .keys.r = &r};
    place_all(&r, ins->workspace, par_threads(), &f);
    *ins->failed = ring_run(&f.pass, run_pass, &f);
    if (*ins->failed != DRV_OK) ring_keys_cancel(&f.keys);
}

int64_t ring_forward_workspace(const node *n, int n_threads) {
    const ring r = ring_of(n, n->in[0], NULL);
    forward f;
    return place_all(&r, NULL, n_threads, &f);
}
