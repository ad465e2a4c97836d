// matmul, matmul_add: a product in tiles (gemm.c), or a single row (generation) by columns.
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/round.h"

enum { ROW_COLUMNS = 16 }; // of a chunk: some 20 KB of weights or more

// A thread's share of the matrix, in chunks of columns: it walks there in order, so that it reads
// one stream of memory, and takes from the others' shares when its own is done. (Chunks that are
// claimed by turns lie apart, and what was fetched ahead of one is the other thread's.)
typedef struct share {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
} share;

typedef struct row_call {
    const instruction *ins;
    share *shares; // by thread
    int n_shares;
} row_call;

// The next chunk for a thread. As many calls as there are chunks: none of them finds nothing.
static int64_t take_chunk(const row_call *call, int thread) {
    for (int i = 0;; i++) {
        share *s = &call->shares[(thread + i) % call->n_shares];
        const int64_t chunk = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (chunk < s->end) return chunk;
    }
}

static void one_row_columns(void *arg, int64_t index, int thread) {
    (void)index;
    const row_call *call = arg;
    const instruction *ins = call->ins;
    const tensor *w = ins->node->in[1];
    const int64_t c = take_chunk(call, thread), first = c * ROW_COLUMNS;
    ins->kernels->row_times_matrix(w->dt, chunk_length(w->dim[0], ROW_COLUMNS, c), w->dim[1],
            ins->in[0], input_at(ins, 1, first * w->dim[1]), output_at(ins, 0, first));
}

static void one_row(const instruction *ins) {
    const int64_t n_chunks = div_up(ins->node->in[1]->dim[0], ROW_COLUMNS);
    row_call call = {ins, ins->workspace, par_threads()};
    for (int i = 0; i < call.n_shares; i++)
        call.shares[i] = (share){n_chunks * i / call.n_shares, n_chunks * (i + 1) / call.n_shares};
    par_for(n_chunks, one_row_columns, &call);
}

static bool is_one_row(const node *n) {
    return n->in[0]->dim[0] == 1 && n->attrs.tb && !n->attrs.ta && n->n_in == 2;
}

static gemm_shape matmul_shape(const node *n) {
    const tensor *x = n->in[0], *w = n->in[1], *y = n->out[0];
    return (gemm_shape){.m = y->dim[0],
            .n = y->dim[1],
            .k = x->dim[!n->attrs.ta],
            .ta = n->attrs.ta,
            .tb = n->attrs.tb,
            .lda = x->dim[1],
            .ldb = w->dim[1],
            .ldc = y->dim[1],
            .in = x->dt,
            .out = y->dt,
            .accumulate = n->n_in == 3};
}

static void matmul(const instruction *ins) {
    gemm_run(ins->gemm[0], ins->in[0], ins->in[1], ins->out[0], ins->workspace);
}

static int64_t matmul_workspace(const node *n, int n_threads) {
    const gemm_shape shape = matmul_shape(n);
    if (is_one_row(n)) return n_threads * (int64_t)sizeof(share);
    return gemm_workspace(&shape, n_threads);
}

static drv_status lower_matmul(arena *a, gemm_machine *m, const node *n, instruction *out) {
    if (is_one_row(n)) {
        out->run = one_row;
        return DRV_OK;
    }
    const gemm_shape shape = matmul_shape(n);
    return gemm_new(a, m, &shape, &out->gemm[0]);
}

static void matmul_add(const instruction *ins) {
    if (ins->out[0] != ins->in[2])
        memcpy(ins->out[0], ins->in[2], (size_t)tensor_bytes(ins->node->out[0]));
    matmul(ins);
}

const cpu_op cpu_op_matmul_add = {.run = matmul_add,
        .workspace = matmul_workspace,
        .lower = lower_matmul};
const cpu_op cpu_op_matmul = {.run = matmul, .workspace = matmul_workspace, .lower = lower_matmul};
