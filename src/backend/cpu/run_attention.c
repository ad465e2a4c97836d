// attention, its gradient, and attention over a cache of keys and values (generation).
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/round.h"

// What does not differ between the sequences of a batch.
static attention_args attention_shape(const node *n, dtype dt) {
    return (attention_args){.dt = dt,
            .seq = n->attrs.seq,
            .n_heads = n->attrs.n_heads,
            .n_kv_heads = n->attrs.n_kv_heads,
            .head_dim = n->attrs.head_dim};
}

typedef struct attention_call {
    const instruction *ins;
    attention_args args;   // of one sequence
    int64_t scratch_bytes; // of a thread
    char *scratch;         // by thread
} attention_call;

static void attention_unit(void *arg, int64_t unit, int thread) {
    const attention_call *call = arg;
    call->ins->attention->attention(&call->args, unit,
            call->scratch + thread * call->scratch_bytes);
}

static void attention(const instruction *ins) {
    const node *n = ins->node;
    const int64_t tokens = n->in[0]->dim[0], width = n->in[0]->dim[1], o_width = n->out[0]->dim[1];
    attention_call call = {.ins = ins, .args = attention_shape(n, n->in[0]->dt)};
    call.scratch = ins->workspace;
    call.scratch_bytes = attention_scratch_bytes(&call.args);
    call.args.lse_stride = tokens;
    for (int64_t t = 0; t < tokens; t += n->attrs.seq) {
        call.args.qkv = input_at(ins, 0, t * width);
        call.args.position = (const int32_t *)ins->in[1] + t;
        call.args.o = output_at(ins, 0, t * o_width);
        call.args.lse = output_at(ins, 1, t);
        par_for(attention_units(&call.args), attention_unit, &call);
    }
}

static int64_t attention_workspace(const node *n, int n_threads) {
    const attention_args args = attention_shape(n, n->in[0]->dt);
    return n_threads * attention_scratch_bytes(&args);
}

const cpu_op cpu_op_attention = {.run = attention, .workspace = attention_workspace};

// --- gradient: partial sums of all units first, then their sums
static void attention_grad_unit(void *arg, int64_t unit, int thread) {
    const attention_call *call = arg;
    call->ins->attention->attention_grad(&call->args, unit,
            call->scratch + thread * call->scratch_bytes);
}

static void attention_sum_unit(void *arg, int64_t unit, int thread) {
    (void)thread;
    const attention_call *call = arg;
    call->ins->attention->attention_grad_sum(&call->args, unit);
}

static int64_t attention_part_bytes(const attention_args *args) {
    return round_up(attention_part_floats(args) * (int64_t)sizeof(float), 64);
}

static void attention_grad(const instruction *ins) {
    const node *n = ins->node;
    const int64_t tokens = n->in[1]->dim[0], width = n->in[1]->dim[1], o_width = n->in[0]->dim[1];
    attention_call call = {.ins = ins, .args = attention_shape(n, n->in[1]->dt)};
    call.args.part = ins->workspace;
    call.scratch = (char *)ins->workspace + attention_part_bytes(&call.args);
    call.scratch_bytes = attention_scratch_bytes(&call.args);
    call.args.lse_stride = tokens;
    for (int64_t t = 0; t < tokens; t += n->attrs.seq) {
        call.args.d_o = input_at(ins, 0, t * o_width);
        call.args.qkv = input_at(ins, 1, t * width);
        call.args.o = (void *)(uintptr_t)input_at(ins, 2, t * o_width);
        call.args.lse = (void *)(uintptr_t)input_at(ins, 3, t);
        call.args.position = (const int32_t *)ins->in[4] + t;
        call.args.dqkv = output_at(ins, 0, t * width);
        par_for(attention_grad_units(&call.args), attention_grad_unit, &call);
        par_for(attention_sum_units(&call.args), attention_sum_unit, &call);
    }
}

static int64_t attention_grad_workspace(const node *n, int n_threads) {
    const attention_args args = attention_shape(n, n->in[1]->dt);
    return attention_part_bytes(&args) + n_threads * attention_scratch_bytes(&args);
}

const cpu_op cpu_op_attention_grad = {.run = attention_grad, .workspace = attention_grad_workspace};

// --- over a cache
static int64_t scores_bytes(const node *n) { // of a head
    return n->in[1]->dim[1] * dtype_bytes(dtype_acc(n->in[0]->dt));
}

static void cached_head(void *arg, int64_t head, int thread) {
    (void)thread;
    const instruction *ins = arg;
    const op_attrs *attrs = &ins->node->attrs;
    const tensor *qkv = ins->node->in[0], *keys = ins->node->in[1];
    const int32_t *slots = ins->in[3];
    const int64_t d = attrs->head_dim, capacity = keys->dim[1],
                  kv_head = head / (attrs->n_heads / attrs->n_kv_heads);
    char *scores = (char *)ins->workspace + head * scores_bytes(ins->node);
    for (int64_t row = 0; row < qkv->dim[0]; row++)
        ins->kernels->cached_attention(qkv->dt, slots[row] + 1, d,
                input_at(ins, 0, row * qkv->dim[1] + head * d),
                input_at(ins, 1, kv_head * capacity * d), input_at(ins, 2, kv_head * capacity * d),
                scores, output_at(ins, 0, (row * attrs->n_heads + head) * d));
}

// Copies the keys (output 1) or values (output 2) of all rows to their slots.
static void fill_cache(const instruction *ins, int output) {
    const op_attrs *attrs = &ins->node->attrs;
    const tensor *qkv = ins->node->in[0], *cache = ins->node->out[output];
    const int32_t *slots = ins->in[3];
    const int64_t d = attrs->head_dim,
                  first_head = attrs->n_heads + (output - 1) * attrs->n_kv_heads;
    for (int64_t row = 0; row < qkv->dim[0]; row++)
        for (int64_t head = 0; head < attrs->n_kv_heads; head++)
            memcpy(output_at(ins, output, (head * cache->dim[1] + slots[row]) * d),
                    input_at(ins, 0, row * qkv->dim[1] + (first_head + head) * d),
                    (size_t)(d * dtype_bytes(cache->dt)));
}

static void cached_attention(const instruction *ins) {
    fill_cache(ins, 1);
    fill_cache(ins, 2);
    run_chunks(ins, ins->node->attrs.n_heads, 1, cached_head);
}

static int64_t cached_attention_workspace(const node *n, int n_threads) {
    (void)n_threads;
    return n->attrs.n_heads * scores_bytes(n);
}

const cpu_op cpu_op_cached_attention = {.run = cached_attention,
        .workspace = cached_attention_workspace};
