// Computes matmul and matmul_add in tiles (gemm.c), or, for a single row (generation), in a share
// of columns for each thread.
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "backend/cpu/fp8_operands.h"
#include "backend/cpu/grad_product.h"
#include "base/round.h"

enum { MIN_COLUMNS = 16 }; // of a piece: some 20 KB of weights or more

// A thread's share of the matrix, columns next .. end of the result. The thread processes it in
// order, so that it reads one stream of memory, and helps with other shares when its own is done.
// It takes a quarter of the remaining columns at a time: few steps at first, and all threads end
// together.
typedef struct share {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
} share;

typedef struct row_call {
    const instruction *ins;
    share *shares; // by thread
    int n_shares;
} row_call;

static bool take_columns(share *s, int64_t *first, int64_t *n) {
    *first = atomic_load_explicit(&s->next, memory_order_relaxed);
    do {
        const int64_t left = s->end - *first;
        if (left <= 0) return false;
        *n = round_up(left / 4, MIN_COLUMNS);
        if (*n < MIN_COLUMNS) *n = MIN_COLUMNS;
        if (*n > left) *n = left;
    } while (!atomic_compare_exchange_weak_explicit(&s->next, first, *first + *n,
            memory_order_relaxed, memory_order_relaxed));
    return true;
}

static int64_t share_begin(int64_t n_columns, int i, int n_shares) {
    return n_columns * i / n_shares;
}

// Prefetches what this thread reads first in the next product, so that memory is not idle during
// the small operations between two products and while threads wait for each other.
static void fetch_next(const row_call *call, int i) {
    enum { FETCHED = 16384, LINE = 64 }; // bytes
    const instruction *next = call->ins->next_product;
    if (!next) return;
    const tensor *w = next->node->in[1];
    const int64_t row_bytes = w->dim[1] * dtype_bytes(w->dt),
                  left = (share_begin(w->dim[0], i + 1, call->n_shares) -
                                 share_begin(w->dim[0], i, call->n_shares)) *
                         row_bytes;
    const char *p =
            (const char *)next->in[1] + share_begin(w->dim[0], i, call->n_shares) * row_bytes;
    for (int64_t at = 0; at < FETCHED && at < left; at += LINE)
        __builtin_prefetch(p + at, 0, 2);
}

// A thread begins with its own share, whose first bytes are in its cache (fetch_next).
static void one_row_share(void *arg, int64_t index DRV_UNUSED) {
    const row_call *call = arg;
    const instruction *ins = call->ins;
    const int thread = par_thread();
    const tensor *w = ins->node->in[1];
    for (int k = 0; k < call->n_shares; k++) {
        int64_t first, n;
        while (take_columns(&call->shares[(thread + k) % call->n_shares], &first, &n))
            ins->kernels->row_times_matrix(w->dt, n, w->dim[1], ins->in[0],
                    input_at(ins, 1, first * w->dim[1]), output_at(ins, 0, first));
    }
    fetch_next(call, thread);
}

static void one_row(const instruction *ins) {
    const int64_t n_columns = ins->node->in[1]->dim[0];
    row_call call = {ins, ins->workspace, par_threads()};
    for (int i = 0; i < call.n_shares; i++)
        call.shares[i] = (share){share_begin(n_columns, i, call.n_shares),
                share_begin(n_columns, i + 1, call.n_shares)};
    par_for(call.n_shares, one_row_share, &call);
}

bool is_row_product(const instruction *ins) {
    return ins->run == one_row;
}

static bool is_one_row(const node *n) {
    return n->in[0]->dim[0] == 1 && n->attrs.matmul.tb && !n->attrs.matmul.ta && n->n_in == 2 &&
           !n->attrs.sum.wide && !tensor_blocks(n->in[1]) && !n->attrs.matmul.fp8;
}

static gemm_shape matmul_shape(const node *n) {
    const tensor *x = n->in[0], *w = n->in[1], *y = n->out[0];
    const int columns = y->n_dims - 1; // reduction blocks of the row come before both dims
    return (gemm_shape){.m = y->dim[columns - 1],
            .n = y->dim[columns],
            .k = x->dim[!n->attrs.matmul.ta],
            .ta = n->attrs.matmul.ta,
            .tb = n->attrs.matmul.tb,
            .lda = x->dim[1],
            .ldb = w->dim[1],
            .ldc = y->dim[columns],
            .in = x->dt,
            .out = y->dt,
            .accumulate = n->n_in == 3,
            .blocks = tensor_blocks(w)};
}

static gemm_tree matmul_tree(const node *n) {
    const op_attrs *attrs = &n->attrs;
    const int64_t ends[MAX_SEGMENTS] = {attrs->sum.segment2, attrs->sum.segment3,
            n->in[0]->dim[!attrs->matmul.ta]};
    gemm_tree tree = {.n_blocks = attrs->sum.blocks};
    int64_t begin = 0;
    for (int i = 0; i < MAX_SEGMENTS && attrs->sum.blocks > 0; i++) {
        if (ends[i] <= begin) continue;
        tree.first[tree.n_segments] = begin;
        tree.each[tree.n_segments++] = (ends[i] - begin) / attrs->sum.blocks;
        begin = ends[i];
    }
    return tree;
}

// matmul_add has a third input, too, which is not a gradient.
static bool adds_to_gradient(const node *n) {
    return n->op == OP_matmul && n->n_in == 3;
}

static void matmul(const instruction *ins) {
    gemm_run(ins->gemm[0], ins->in[0], ins->in[1], ins->out[0], ins->workspace,
            ins->workspace_bytes);
}

static void add_to_gradient(const instruction *ins) {
    const gemm_shape shape = matmul_shape(ins->node);
    grad_product_run(ins, &shape, ins->in[0], ins->in[1]);
}

static void matmul_add(const instruction *ins) {
    if (ins->out[0] != ins->in[2])
        memcpy(ins->out[0], ins->in[2], (size_t)tensor_bytes(ins->node->out[0]));
    matmul(ins);
}

static void in_fp8(const instruction *ins) {
    const node *n = ins->node;
    fp8_run(ins, adds_to_gradient(n)      ? add_to_gradient
                 : n->op == OP_matmul_add ? matmul_add
                                          : matmul);
}

static int64_t matmul_workspace(const node *n, int n_threads) {
    const gemm_shape shape = matmul_shape(n);
    const gemm_tree tree = matmul_tree(n);
    if (is_one_row(n)) return n_threads * (int64_t)sizeof(share);
    const int64_t operands = n->attrs.matmul.fp8 ? fp8_workspace(n) : 0;
    return operands + (adds_to_gradient(n) ? grad_product_workspace(n, &shape, n_threads)
                                           : gemm_workspace(&shape, &tree, n_threads));
}

static drv_status lower_matmul(arena *a, gemm_machine *m, const node *n, instruction *out) {
    if (is_one_row(n)) {
        out->run = one_row;
        return DRV_OK;
    }
    const gemm_shape shape = matmul_shape(n);
    if (adds_to_gradient(n)) out->run = add_to_gradient;
    if (n->attrs.matmul.fp8) out->run = in_fp8;
    if (adds_to_gradient(n)) return grad_product_lower(a, m, n, &shape, out);
    const gemm_tree tree = matmul_tree(n);
    return gemm_new(a, m, &shape, &tree, &out->gemm[0]);
}

const cpu_op cpu_op_matmul_add = {.run = matmul_add,
        .workspace = matmul_workspace,
        .lower = lower_matmul};
const cpu_op cpu_op_matmul = {.run = matmul, .workspace = matmul_workspace, .lower = lower_matmul};
