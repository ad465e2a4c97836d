// matmul: a product in tiles (gemm.c), or a single row (generation) by columns.
#include "backend/cpu/cpu_op.h"

static void one_row_columns(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *ins = arg;
    const tensor *w = ins->node->in[1];
    const int64_t first = c * CHUNK_COLUMNS;
    ins->kernels->row_times_matrix(w->dt, chunk_length(w->dim[0], CHUNK_COLUMNS, c), w->dim[1],
            ins->in[0], input_at(ins, 1, first * w->dim[1]), output_at(ins, 0, first));
}

static void one_row(const instruction *ins) {
    run_chunks(ins, ins->node->in[1]->dim[0], CHUNK_COLUMNS, one_row_columns);
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
    return is_one_row(n) ? 0 : gemm_workspace(&shape, n_threads);
}

static drv_status lower_matmul(arena *a, gemm_machine *m, const node *n, instruction *out) {
    if (is_one_row(n)) {
        out->run = one_row;
        return DRV_OK;
    }
    const gemm_shape shape = matmul_shape(n);
    return gemm_new(a, m, &shape, &out->gemm[0]);
}

const cpu_op cpu_op_matmul = {.run = matmul, .workspace = matmul_workspace, .lower = lower_matmul};
