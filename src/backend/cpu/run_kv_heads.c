// Key-value heads that several tensor ranks share (ir/ops/kv_heads.c): assembles shares, sums the
// gradients of whole heads, and takes a share.
//
// Legend: N tokens.
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/round.h"
#include "ir/wire.h"

// Numbers of columns.
typedef struct kv_columns {
    int64_t q, head, share; // of all queries; of a whole k or v; of a rank's share of one
    int replicas;
} kv_columns;

static kv_columns columns_of(const node *n) {
    const op_attrs *attrs = &n->attrs;
    return (kv_columns){(int64_t)attrs->heads.n_heads * attrs->heads.head_dim,
            attrs->heads.head_dim, attrs->heads.head_dim / attrs->mesh.replicas,
            attrs->mesh.replicas};
}

static void copy(char *to, const char *from, int64_t n, int64_t unit) {
    memcpy(to, from, (size_t)(n * unit));
}

static int64_t tokens_of(const node *n) {
    return n->in[0]->dim[0];
}

// --- gather_kv. Workspace: the shares of all replicas, [replicas][N][k, v].
typedef struct gather_call {
    const instruction *ins;
    kv_columns of;
    char *shares;
    int64_t unit;
} gather_call;

static char *share_at(const gather_call *call, int64_t replica, int64_t token) {
    const int64_t tokens = tokens_of(call->ins->node);
    return call->shares + (replica * tokens + token) * 2 * call->of.share * call->unit;
}

static void pack_share(void *arg, int64_t c) {
    const gather_call *call = arg;
    const kv_columns of = call->of;
    const int64_t first = c * CHUNK_ROWS,
                  n = chunk_length(tokens_of(call->ins->node), CHUNK_ROWS, c);
    const int place = group_place(call->ins->group);
    for (int64_t t = first; t < first + n; t++)
        copy(share_at(call, place, t), input_at(call->ins, 0, t * (of.q + 2 * of.share) + of.q),
                2 * of.share, call->unit);
}

static void put_whole(void *arg, int64_t c) {
    const gather_call *call = arg;
    const kv_columns of = call->of;
    const int64_t first = c * CHUNK_ROWS,
                  n = chunk_length(tokens_of(call->ins->node), CHUNK_ROWS, c);
    for (int64_t t = first; t < first + n; t++) {
        const int64_t at = t * (of.q + 2 * of.head);
        copy(output_at(call->ins, 0, at), input_at(call->ins, 0, t * (of.q + 2 * of.share)), of.q,
                call->unit);
        for (int r = 0; r < of.replicas; r++) {
            const char *share = share_at(call, r, t);
            char *k = output_at(call->ins, 0, at + of.q + r * of.share);
            copy(k, share, of.share, call->unit);
            copy(k + of.head * call->unit, share + of.share * call->unit, of.share, call->unit);
        }
    }
}

static void gather_kv(const instruction *ins) {
    const node *n = ins->node;
    gather_call call = {ins, columns_of(n), ins->workspace, dtype_bytes(n->in[0]->dt)};
    const int64_t chunks = div_up(tokens_of(n), CHUNK_ROWS),
                  bytes = tokens_of(n) * 2 * call.of.share * call.unit;
    if (!ins->group) {
        memcpy(ins->out[0], ins->in[0], (size_t)tensor_bytes(n->in[0]));
        return;
    }
    par_for(chunks, pack_share, &call);
    *ins->failed = comm_all_gather(ins->group, share_at(&call, group_place(ins->group), 0), bytes,
            NULL, call.shares);
    if (*ins->failed == DRV_OK) par_for(chunks, put_whole, &call);
}

static int64_t kv_numbers(const node *n) { // of whole k and v
    return tokens_of(n) * 2 * n->attrs.heads.head_dim;
}

static int64_t gather_workspace(const node *n, int n_threads DRV_UNUSED) {
    return n->attrs.mesh.replicas > 1 ? kv_numbers(n) * dtype_bytes(n->in[0]->dt) : 0;
}

const cpu_op cpu_op_gather_kv = {.run = gather_kv, .workspace = gather_workspace};

// --- slice_kv
static void slice_rows(const instruction *ins, int64_t first, int64_t n) {
    const kv_columns of = columns_of(ins->node);
    const int64_t unit = dtype_bytes(ins->node->in[0]->dt),
                  place = ins->group ? group_place(ins->group) : 0;
    for (int64_t t = first; t < first + n; t++) {
        const int64_t from = t * (of.q + 2 * of.head), to = t * (of.q + 2 * of.share);
        const char *k = input_at(ins, 0, from + of.q + place * of.share);
        copy(output_at(ins, 0, to), input_at(ins, 0, from), of.q, unit);
        copy(output_at(ins, 0, to + of.q), k, of.share, unit);
        copy(output_at(ins, 0, to + of.q + of.share), k + of.head * unit, of.share, unit);
    }
}

const cpu_op cpu_op_slice_kv = {.rows = slice_rows};

// An alias; only its gradient computes.
const cpu_op cpu_op_share_kv = {.run = NULL};

// --- join_kv. Each replica adds one range of the numbers of k and v, [N][k, v], and rounds it;
// then all gather the ranges. Workspace: partial sums | scratch of comm | sums of a range | all,
// rounded.
typedef struct join_call {
    const instruction *ins;
    kv_columns of;
    char *partial, *scratch, *sums, *rounded;
} join_call;

static int64_t place_all(const node *n, char *base, join_call *out) {
    const dtype acc = n->in[0]->dt;
    const int64_t all = kv_numbers(n), replicas = n->attrs.mesh.replicas;
    const int64_t bytes[] = {all * dtype_bytes(acc), wire_scratch(acc, all, (int)replicas),
            all / replicas * dtype_bytes(acc), all * dtype_bytes(n->attrs.narrow.to)};
    char **parts[] = {&out->partial, &out->scratch, &out->sums, &out->rounded};
    int64_t used = 0;
    for (int i = 0; i < 4; i++) {
        *parts[i] = base ? base + used : NULL;
        used += round_up(bytes[i], 64);
    }
    return used;
}

// Rounds the columns of q, and copies those of k and v to the partial sums.
static void begin_join(void *arg, int64_t c) {
    const join_call *call = arg;
    const instruction *ins = call->ins;
    const kv_columns of = call->of;
    const int64_t first = c * CHUNK_ROWS, n = chunk_length(tokens_of(ins->node), CHUNK_ROWS, c),
                  unit = dtype_bytes(ins->node->in[0]->dt);
    for (int64_t t = first; t < first + n; t++) {
        const int64_t at = t * (of.q + 2 * of.head);
        ins->kernels->narrow(ins->node->attrs.narrow.to, of.q, input_at(ins, 0, at), NULL,
                output_at(ins, 0, at));
        copy(call->partial + t * 2 * of.head * unit, input_at(ins, 0, at + of.q), 2 * of.head,
                unit);
    }
}

static void end_join(void *arg, int64_t c) {
    const join_call *call = arg;
    const instruction *ins = call->ins;
    const kv_columns of = call->of;
    const int64_t first = c * CHUNK_ROWS, n = chunk_length(tokens_of(ins->node), CHUNK_ROWS, c),
                  unit = dtype_bytes(ins->node->attrs.narrow.to);
    for (int64_t t = first; t < first + n; t++)
        copy(output_at(ins, 0, t * (of.q + 2 * of.head) + of.q),
                call->rounded + t * 2 * of.head * unit, 2 * of.head, unit);
}

static drv_status join_over_replicas(const join_call *call) {
    const instruction *ins = call->ins;
    const dtype acc = ins->node->in[0]->dt, dt = ins->node->attrs.narrow.to;
    const int64_t all = kv_numbers(ins->node), run = all / call->of.replicas;
    char *mine = call->rounded + group_place(ins->group) * run * dtype_bytes(dt);
    DRV_TRY(comm_reduce_scatter(ins->group, acc, COMM_SUM, call->partial, all, NULL, call->sums,
            call->scratch));
    ins->kernels->narrow(dt, run, call->sums, NULL, mine);
    return comm_all_gather(ins->group, mine, run * dtype_bytes(dt), NULL, call->rounded);
}

static void join_kv(const instruction *ins) {
    const node *n = ins->node;
    const int64_t chunks = div_up(tokens_of(n), CHUNK_ROWS);
    join_call call = {.ins = ins, .of = columns_of(n)};
    if (!ins->group) {
        ins->kernels->narrow(n->attrs.narrow.to, tensor_elements(n->in[0]), ins->in[0], NULL,
                ins->out[0]);
        return;
    }
    place_all(n, ins->workspace, &call);
    par_for(chunks, begin_join, &call);
    *ins->failed = join_over_replicas(&call);
    if (*ins->failed == DRV_OK) par_for(chunks, end_join, &call);
}

static int64_t join_workspace(const node *n, int n_threads DRV_UNUSED) {
    join_call unused;
    return n->attrs.mesh.replicas > 1 ? place_all(n, NULL, &unused) : 0;
}

const cpu_op cpu_op_join_kv = {.run = join_kv, .workspace = join_workspace};
