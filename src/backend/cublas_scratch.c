// Scratch of products, by the operands of nodes.
#include "backend/cublas_scratch.h"

#include "ir/op.h"

#define MOST_BYTES ((int64_t)32 << 20)

// Ops whose arithmetic is counted are products and attention.
static bool multiplies(const node *n) {
    return op_rows[n->op]->flops && !OP_READS(n->op, attention, seq);
}

int64_t cublas_scratch_bytes(const graph *g) {
    int64_t most = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        int64_t bytes = 0;
        for (int k = 0; k < n->n_in && k < 2 && multiplies(n); k++)
            bytes += tensor_bytes(n->in[k]);
        if (bytes > most) most = bytes;
    }
    return most < MOST_BYTES ? most : MOST_BYTES;
}
