// Estimates the memory that products need, from the operands of nodes.
#include "backend/cublas_memory.h"

#include "ir/op.h"

#define MOST_BYTES ((int64_t)32 << 20)

// The ops whose arithmetic is counted are products and attention.
static bool multiplies(const node *n) {
    return op_rows[n->op]->flops && !OP_READS(n->op, attention, seq);
}

int64_t cublas_scratch_bytes(const node *n) {
    int64_t bytes = 0;
    for (int k = 0; k < n->n_in && k < 2 && multiplies(n); k++)
        bytes += tensor_bytes(n->in[k]);
    return bytes < MOST_BYTES ? bytes : MOST_BYTES;
}

int64_t cublas_most_scratch(const graph *g) {
    int64_t most = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const int64_t bytes = cublas_scratch_bytes(g->nodes[i]);
        if (bytes > most) most = bytes;
    }
    return most;
}

static bool reads_in_fp8(const graph *g, const tensor *t) {
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        if (OP_READS(n->op, matmul, fp8) && n->attrs.matmul.fp8 && n->in[1] == t) return true;
    }
    return false;
}

int64_t cublas_fp8_bytes(const graph *g) {
    int64_t bytes = 0;
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->cls == TENSOR_WEIGHT && reads_in_fp8(g, t)) bytes += tensor_elements(t);
    }
    return bytes;
}
