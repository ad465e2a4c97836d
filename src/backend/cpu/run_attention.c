// Computes attention of whole rows, its gradient, and attention over a key-value cache
// (generation).
#include <string.h>

#include "backend/cpu/ring_pass.h"
#include "base/round.h"

// Fills in the arguments that do not differ between the sequences of a batch.
static attention_args attention_shape(const node *n, dtype dt) {
    return (attention_args){.dt = dt,
            .seq = n->attrs.attention.seq,
            .n_heads = n->attrs.heads.n_heads,
            .all_heads = n->attrs.attention.all_heads,
            .n_kv_heads = n->attrs.heads.n_kv_heads,
            .head_dim = n->attrs.heads.head_dim,
            .window = n->attrs.attention.window,
            .blocks = n->attrs.sum.blocks,
            .dqkv_is_acc = n->attrs.sum.wide};
}

typedef struct attention_call {
    const instruction *ins;
    attention_args args;   // for one sequence
    int64_t first, n;      // sequences, for the gradient
    int64_t scratch_bytes; // of a thread
    char *scratch;         // by thread
} attention_call;

// Runs the units of all sequences as one loop, so that threads wait for each other only once.
static void attention_of_rows(void *arg, int64_t unit) {
    const attention_call *call = arg;
    const instruction *ins = call->ins;
    const node *n = ins->node;
    const int64_t units = attention_units(&call->args), t = unit / units * n->attrs.attention.seq;
    attention_args args = call->args;
    args.qkv = input_at(ins, 0, t * n->in[0]->dim[1]);
    args.position = (const int32_t *)ins->in[1] + t;
    args.hidden = n->n_in > 2 ? (const int32_t *)ins->in[2] + 2 * t : NULL;
    args.o = output_at(ins, 0, t * n->out[0]->dim[1]);
    args.lse = output_at(ins, 1, t);
    ins->attention->attention(&args, unit % units,
            call->scratch + par_thread() * call->scratch_bytes);
}

static void attention(const instruction *ins) {
    const node *n = ins->node;
    if (ring_is_cut(&n->attrs)) {
        ring_forward(ins);
        return;
    }
    const int64_t tokens = n->in[0]->dim[0];
    attention_call call = {.ins = ins, .args = attention_shape(n, n->in[0]->dt)};
    call.scratch = ins->workspace;
    call.scratch_bytes = attention_scratch_bytes(&call.args);
    call.args.lse_stride = tokens;
    par_for(tokens / n->attrs.attention.seq * attention_units(&call.args), attention_of_rows,
            &call);
}

static int64_t attention_workspace(const node *n, int n_threads) {
    if (ring_is_cut(&n->attrs)) return ring_forward_workspace(n, n_threads);
    const attention_args args = attention_shape(n, n->in[0]->dt);
    return n_threads * attention_scratch_bytes(&args);
}

const cpu_op cpu_op_attention = {.run = attention, .workspace = attention_workspace};

// --- gradient: partial sums of all units, then their sums, for a few sequences at a time
// Returns how many sequences are processed together: enough for two units a thread, an early and a
// late one, but no more, so that their partial sums stay small.
static int64_t sequences_at_once(const node *n, const attention_args *args, int n_threads) {
    const int64_t all = n->in[1]->dim[0] / args->seq,
                  want = div_up(2 * n_threads, attention_grad_units(args));
    return want < all ? want : all;
}

static int64_t attention_part_bytes(const attention_args *args) {
    return round_up(attention_part_floats(args) * (int64_t)sizeof(float), 64);
}

// Returns the arguments of sequence i of those processed together.
static attention_args grad_args(const attention_call *call, int64_t i) {
    const instruction *ins = call->ins;
    const node *n = ins->node;
    const int64_t t = (call->first + i) * n->attrs.attention.seq, width = n->in[1]->dim[1],
                  o_width = n->in[0]->dim[1];
    attention_args args = call->args;
    args.d_o = input_at(ins, 0, t * o_width);
    args.qkv = input_at(ins, 1, t * width);
    args.o = (void *)(uintptr_t)input_at(ins, 2, t * o_width);
    args.lse = (void *)(uintptr_t)input_at(ins, 3, t);
    args.position = (const int32_t *)ins->in[4] + t;
    args.hidden = n->n_in > 5 ? (const int32_t *)ins->in[5] + 2 * t : NULL;
    args.dqkv = output_at(ins, 0, t * width);
    args.part = (void *)((char *)ins->workspace + i * attention_part_bytes(&args));
    return args;
}

// The first units of all sequences run first, since they take longest.
static void attention_grad_unit(void *arg, int64_t i) {
    const attention_call *call = arg;
    const attention_args args = grad_args(call, i % call->n);
    call->ins->attention->attention_grad(&args, i / call->n,
            call->scratch + par_thread() * call->scratch_bytes);
}

static void attention_sum_unit(void *arg, int64_t i) {
    const attention_call *call = arg;
    const attention_args args = grad_args(call, i % call->n);
    call->ins->attention->attention_grad_sum(&args, i / call->n);
}

static void attention_grad(const instruction *ins) {
    const node *of = ins->node;
    if (ring_is_cut(&of->attrs)) {
        ring_backward(ins);
        return;
    }
    attention_call call = {.ins = ins, .args = attention_shape(of, of->in[1]->dt)};
    const int64_t tokens = of->in[1]->dim[0], all = tokens / of->attrs.attention.seq,
                  at_once = sequences_at_once(of, &call.args, par_threads());
    call.args.lse_stride = tokens;
    call.scratch = (char *)ins->workspace + at_once * attention_part_bytes(&call.args);
    call.scratch_bytes = attention_scratch_bytes(&call.args);
    for (; call.first < all; call.first += at_once) {
        call.n = all - call.first < at_once ? all - call.first : at_once;
        par_for(call.n * attention_grad_units(&call.args), attention_grad_unit, &call);
        par_for(call.n * attention_sum_units(&call.args), attention_sum_unit, &call);
    }
}

static int64_t attention_grad_workspace(const node *n, int n_threads) {
    if (ring_is_cut(&n->attrs)) return ring_backward_workspace(n, n_threads);
    const attention_args args = attention_shape(n, n->in[1]->dt);
    return sequences_at_once(n, &args, n_threads) * attention_part_bytes(&args) +
           n_threads * attention_scratch_bytes(&args);
}

const cpu_op cpu_op_attention_grad = {.run = attention_grad,
        .workspace = attention_grad_workspace,
        .over_replicas = true};

// --- over a cache
// Copies the keys (output 1) or values (output 2) of all rows to their slots.
static void fill_cache(const instruction *ins, int output) {
    const op_attrs *attrs = &ins->node->attrs;
    const tensor *qkv = ins->node->in[0], *cache = ins->node->out[output];
    const int32_t *slots = ins->in[3];
    const int64_t d = attrs->heads.head_dim,
                  first_head = attrs->heads.n_heads + (output - 1) * attrs->heads.n_kv_heads;
    for (int64_t row = 0; row < qkv->dim[0]; row++)
        for (int64_t head = 0; head < attrs->heads.n_kv_heads; head++)
            memcpy(output_at(ins, output, (head * cache->dim[1] + slots[row]) * d),
                    input_at(ins, 0, row * qkv->dim[1] + (first_head + head) * d),
                    (size_t)(d * dtype_bytes(cache->dt)));
}

static attention_args cache_shape(const node *n) {
    attention_args args = attention_shape(n, n->in[0]->dt);
    args.capacity = n->in[1]->dim[1];
    args.first = args.capacity - 1; // the most keys before a row
    return args;
}

static int64_t row_part_bytes(const node *n) {
    const attention_args args = cache_shape(n);
    return round_up(row_attention_part_bytes(&args), 64);
}

// Divides the units into at most twice as many runs as there are threads: a thread reads
// consecutive memory, and other threads take over the runs of a late one.
static int64_t row_runs(const attention_call *call) {
    const int64_t units = row_attention_units(&call->args), most = 2 * (int64_t)par_threads();
    return units < most ? units : most;
}

static void row_run(void *arg, int64_t run) {
    const attention_call *call = arg;
    const int64_t units = row_attention_units(&call->args), n_runs = row_runs(call);
    for (int64_t unit = units * run / n_runs; unit < units * (run + 1) / n_runs; unit++)
        call->ins->kernels->row_attention(&call->args, unit, call->ins->workspace,
                call->scratch + par_thread() * call->scratch_bytes);
}

// A single row sees all keys that it gets, so keys before its window are left out.
static void skip_to_window(attention_args *args) {
    const int64_t before = args->window && args->first >= args->window
                                   ? args->first - args->window + 1
                                   : 0,
                  bytes = before * args->head_dim * dtype_bytes(args->dt);
    args->keys = (const char *)args->keys + bytes;
    args->values = (const char *)args->values + bytes;
    args->first -= before;
}

static void attention_unit(void *arg, int64_t unit) {
    const attention_call *call = arg;
    call->ins->attention->attention(&call->args, unit,
            call->scratch + par_thread() * call->scratch_bytes);
}

// Rows are consecutive in the cache. A single row, as in decoding, is divided by keys, several rows
// by blocks of queries. So a row of a prompt has the same bits with any other rows, but not alone.
static void cached_attention(const instruction *ins) {
    attention_args args = cache_shape(ins->node);
    attention_call call = {.ins = ins};
    fill_cache(ins, 1);
    fill_cache(ins, 2);
    args.qkv = ins->in[0], args.keys = ins->in[1], args.values = ins->in[2];
    args.position = ins->in[3];
    args.o = ins->out[0];
    call.scratch = ins->workspace;
    call.scratch_bytes =
            args.seq == 1 ? row_attention_scratch_bytes(&args) : attention_scratch_bytes(&args);
    args.first = args.position[0];
    call.args = args;
    if (args.seq > 1) {
        par_for(attention_units(&args), attention_unit, &call);
        return;
    }
    skip_to_window(&call.args);
    call.scratch += row_part_bytes(ins->node);
    par_for(row_runs(&call), row_run, &call);
    ins->kernels->row_attention_join(&call.args, ins->workspace);
}

static int64_t cached_attention_workspace(const node *n, int n_threads) {
    const attention_args args = cache_shape(n);
    if (args.seq > 1) return n_threads * attention_scratch_bytes(&args);
    return row_part_bytes(n) + n_threads * row_attention_scratch_bytes(&args);
}

const cpu_op cpu_op_cached_attention = {.run = cached_attention,
        .workspace = cached_attention_workspace};
