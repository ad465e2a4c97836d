// Products that are added to gradients.
//
// Workspace: scratch of the product, and where ranks join: what this rank has | what comm needs.
#include "backend/cpu/grad_product.h"

#include "base/round.h"
#include "ir/wire.h"

gemm_tree grad_tree(int leaves, int64_t n_tokens) {
    const gemm_tree none = {0};
    if (leaves < 2) return none;
    const int64_t each = n_tokens / leaves;
    return (gemm_tree){.n_leaves = leaves,
            .n_runs = 1,
            .each = {each},
            .last = n_tokens % leaves ? each + 1 : 0,
            .near = n_tokens};
}

// Where ranks join, a product of its own.
static gemm_shape shape_of_product(const node *n, const gemm_shape *shape) {
    gemm_shape own = *shape;
    if (n->attrs.ranks <= 1) return own;
    own.accumulate = false;
    own.ldc = own.n;
    return own;
}

static int64_t product_bytes(const gemm_shape *shape) {
    return round_up(shape->m * shape->n * dtype_bytes(shape->out), 64);
}

drv_status grad_product_new(arena *a, gemm_machine *m, const node *n, const gemm_shape *shape,
        gemm **out) {
    const gemm_shape own = shape_of_product(n, shape);
    const gemm_tree tree = grad_tree(n->attrs.leaves, shape->k);
    return gemm_new(a, m, &own, &tree, out);
}

int64_t grad_product_workspace(const node *n, const gemm_shape *shape, int n_threads) {
    const gemm_shape own = shape_of_product(n, shape);
    const gemm_tree tree = grad_tree(n->attrs.leaves, shape->k);
    const int64_t scratch = gemm_workspace(&own, &tree, n_threads);
    if (n->attrs.ranks <= 1) return scratch;
    const int64_t joined = wire_scratch(shape->out, shape->m * shape->n, n->attrs.ranks);
    return product_bytes(shape) + (scratch > joined ? scratch : joined);
}

void grad_product_run(const instruction *ins, const gemm_shape *shape, const void *a,
        const void *b) {
    const int64_t n = shape->m * shape->n;
    char *own = ins->workspace, *scratch = own + product_bytes(shape);
    if (ins->node->attrs.ranks <= 1) {
        gemm_run(ins->gemm[0], a, b, ins->out[0], ins->workspace);
        return;
    }
    gemm_run(ins->gemm[0], a, b, own, scratch);
    if (ins->group)
        *ins->failed = comm_all_reduce(ins->group, shape->out, COMM_SUM, own, n, scratch);
    ins->kernels->accumulate(shape->out, n, own, ins->out[0]);
}
