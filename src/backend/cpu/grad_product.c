// Products that are added to gradients. Three ways: in place, lane by lane; where ranks join, by
// way of a sum that comm joins; where ranks join and have several leaves of the row, whose runs of
// tokens may lie on several ranks, each gets the runs of all.
//
// Workspace: scratch of the product, or of comm; before it what ranks join: a sum, or this rank's
// runs | those of all ranks.
#include "backend/cpu/grad_product.h"

#include "base/round.h"
#include "comm/join.h"
#include "ir/op.h"
#include "ir/wire.h"

static bool ranks_join(const node *n) {
    return n->attrs.ranks > 1;
}

static bool by_runs(const node *n) {
    return ranks_join(n) && lanes_of(&n->attrs) > 1;
}

static int n_leaves(const node *n) { // of a lane, on this rank
    return n->attrs.leaves > 1 ? n->attrs.leaves : 1;
}

static int n_runs(const node *n) { // of this rank, all lanes together
    return lanes_of(&n->attrs) * n_leaves(n);
}

// Near-equal runs of n_tokens.
static gemm_tree tree_of_tokens(int leaves, int64_t n_tokens) {
    const gemm_tree none = {0};
    if (leaves < 2) return none;
    const int64_t each = n_tokens / leaves;
    return (gemm_tree){.n_leaves = leaves,
            .n_runs = 1,
            .each = {each},
            .last = n_tokens % leaves ? each + 1 : 0,
            .near = n_tokens};
}

// One of the products of a node; i: of runs that are a token longer than others.
typedef struct one_product {
    gemm_shape shape;
    gemm_tree tree;
} one_product;

static one_product product_of(const node *n, const gemm_shape *shape, int i) {
    one_product one = {.shape = *shape};
    if (ranks_join(n)) {
        one.shape.accumulate = false;
        one.shape.ldc = shape->n;
    }
    if (by_runs(n)) {
        one.shape.k = shape->k / n_runs(n) + i;
    } else {
        one.shape.k = shape->k / lanes_of(&n->attrs);
        one.tree = tree_of_tokens(n->attrs.leaves, one.shape.k);
    }
    return one;
}

static int n_products(const node *n, const gemm_shape *shape) {
    return by_runs(n) && shape->k % n_runs(n) ? 2 : 1;
}

drv_status grad_product_lower(arena *a, gemm_machine *m, const node *n, const gemm_shape *shape,
        instruction *out) {
    for (int i = 0; i < n_products(n, shape); i++) {
        const one_product one = product_of(n, shape, i);
        DRV_TRY(gemm_new(a, m, &one.shape, &one.tree, &out->gemm[i]));
    }
    return DRV_OK;
}

static int64_t sum_bytes(const gemm_shape *shape) {
    return shape->m * shape->n * dtype_bytes(shape->out);
}

static int64_t joined_bytes(const node *n, const gemm_shape *shape) {
    if (!ranks_join(n)) return 0;
    if (!by_runs(n)) return round_up(sum_bytes(shape), 64);
    return round_up(sum_bytes(shape) * n_runs(n) * (1 + n->attrs.ranks), 64);
}

int64_t grad_product_workspace(const node *n, const gemm_shape *shape, int n_threads) {
    const bool by_comm = ranks_join(n) && !by_runs(n);
    int64_t most = by_comm ? wire_scratch(shape->out, shape->m * shape->n, n->attrs.ranks) : 0;
    for (int i = 0; i < n_products(n, shape); i++) {
        const one_product one = product_of(n, shape, i);
        const int64_t bytes = gemm_workspace(&one.shape, &one.tree, n_threads);
        if (bytes > most) most = bytes;
    }
    return joined_bytes(n, shape) + most;
}

typedef struct call {
    const instruction *ins;
    const gemm_shape *shape;
    const char *a, *b;
    char *joined, *scratch;
} call;

// Of the tokens from `first` on.
static void run_product(const call *c, int i, int64_t first, char *out) {
    const int64_t unit = dtype_bytes(c->shape->in);
    gemm_run(c->ins->gemm[i], c->a + first * c->shape->lda * unit,
            c->b + first * c->shape->ldb * unit, out, c->scratch);
}

static void in_place(const call *c) {
    const int lanes = lanes_of(&c->ins->node->attrs);
    for (int lane = 0; lane < lanes; lane++)
        run_product(c, 0, c->shape->k / lanes * lane,
                (char *)c->ins->out[0] + lane * sum_bytes(c->shape));
}

static void by_sum(const call *c) {
    const instruction *ins = c->ins;
    const int64_t n = c->shape->m * c->shape->n;
    run_product(c, 0, 0, c->joined);
    if (ins->group)
        *ins->failed =
                comm_all_reduce(ins->group, c->shape->out, COMM_SUM, c->joined, n, c->scratch);
    ins->kernels->accumulate(c->shape->out, n, c->joined, ins->out[0]);
}

static void by_gathered_runs(const call *c) {
    const instruction *ins = c->ins;
    const int64_t bytes = sum_bytes(c->shape), tokens = c->shape->k;
    const int runs = n_runs(ins->node), in_lane = n_leaves(ins->node) * ins->node->attrs.ranks;
    char *all = c->joined + runs * bytes;
    for (int i = 0; i < runs; i++) {
        const int64_t first = tokens * i / runs, length = tokens * (i + 1) / runs - first;
        run_product(c, length > tokens / runs, first, c->joined + i * bytes);
    }
    if (ins->group) *ins->failed = comm_all_gather(ins->group, c->joined, runs * bytes, NULL, all);
    for (int lane = 0; lane < lanes_of(&ins->node->attrs); lane++) {
        const void *run[MAX_LEAVES];
        char *first = all + lane * in_lane * bytes;
        for (int i = 0; i < in_lane; i++)
            run[i] = first + i * bytes;
        join_parts(c->shape->out, COMM_SUM, run, in_lane, c->shape->m * c->shape->n, first);
        ins->kernels->accumulate(c->shape->out, c->shape->m * c->shape->n, first,
                (char *)ins->out[0] + lane * bytes);
    }
}

void grad_product_run(const instruction *ins, const gemm_shape *shape, const void *a,
        const void *b) {
    const call c = {ins, shape, a, b, ins->workspace,
            (char *)ins->workspace + joined_bytes(ins->node, shape)};
    if (!ranks_join(ins->node))
        in_place(&c);
    else if (by_runs(ins->node))
        by_gathered_runs(&c);
    else
        by_sum(&c);
}
