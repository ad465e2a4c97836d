// Adds products to gradients, in one of three ways. On one rank each reduction block is
// updated in place, partial sum after partial sum. A single sum over ranks is computed in scratch
// and reduced by comm. If there are several sums (reduction blocks or partial sums), whose runs of
// tokens may be on several ranks, the ranks exchange the results of all runs.
//
// Workspace: the data to exchange, then the scratch of the product or of comm. The data is one sum,
// or: runs that this rank adds | its sums of runs | those of all ranks.
#include "backend/cpu/grad_product.h"

#include "base/round.h"
#include "comm/join.h"
#include "ir/token_sums.h"
#include "ir/wire.h"

static bool ranks_join(const node *n) {
    return n->attrs.mesh.ranks > 1;
}

// Divides n_tokens, the tokens of a partial sum, into nearly equal runs.
static gemm_tree tree_of_tokens(int blocks, int64_t n_tokens, int64_t partial_sums) {
    const gemm_tree chain = {.partial_sums = partial_sums};
    if (blocks < 2) return chain;
    const int64_t each = n_tokens / blocks;
    return (gemm_tree){.partial_sums = partial_sums,
            .n_blocks = blocks,
            .n_segments = 1,
            .each = {each},
            .last = n_tokens % blocks ? each + 1 : 0,
            .near = n_tokens};
}

// One of the products of a node. Product 1 is for runs that are one token longer than others.
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
    if (tells_runs(&n->attrs)) {
        one.shape.k = shape->k / runs_of_rank(&n->attrs) + i;
    } else {
        one.shape.k = shape->k / sums_of_tokens(&n->attrs);
        one.tree = tree_of_tokens(n->attrs.sum.blocks, one.shape.k, n->attrs.sum.partial_sums);
    }
    return one;
}

static int n_products(const node *n, const gemm_shape *shape) {
    return tells_runs(&n->attrs) && shape->k % runs_of_rank(&n->attrs) ? 2 : 1;
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

// Returns the number of sums that this rank sends, after it has added its neighbouring runs.
static int64_t n_sent(const node *n) {
    return runs_of_rank(&n->attrs) / runs_joined_here(&n->attrs);
}

static int64_t joined_bytes(const node *n, const gemm_shape *shape) {
    if (!ranks_join(n)) return 0;
    if (!tells_runs(&n->attrs)) return round_up(sum_bytes(shape), 64);
    const int64_t sums = runs_joined_here(&n->attrs) + n_sent(n) * (1 + n->attrs.mesh.ranks);
    return round_up(sum_bytes(shape) * sums, 64);
}

int64_t grad_product_workspace(const node *n, const gemm_shape *shape, int n_threads) {
    const bool by_comm = ranks_join(n) && !tells_runs(&n->attrs);
    int64_t most = by_comm ? wire_scratch(shape->out, shape->m * shape->n, n->attrs.mesh.ranks) : 0;
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
    int64_t scratch_bytes;
} call;

// Runs product i on the tokens from `first` on.
static void run_product(const call *c, int i, int64_t first, char *out) {
    const int64_t unit = dtype_bytes(c->shape->in);
    gemm_run(c->ins->gemm[i], c->a + first * c->shape->lda * unit,
            c->b + first * c->shape->ldb * unit, out, c->scratch, c->scratch_bytes);
}

static void add_in_place(const call *c) {
    const int row_blocks = row_blocks_of(&c->ins->node->attrs);
    for (int own_block = 0; own_block < row_blocks; own_block++)
        run_product(c, 0, c->shape->k / row_blocks * own_block,
                (char *)c->ins->out[0] + own_block * sum_bytes(c->shape));
}

static void reduce_sum(const call *c) {
    const instruction *ins = c->ins;
    const int64_t n = c->shape->m * c->shape->n;
    run_product(c, 0, 0, c->joined);
    if (ins->group)
        *ins->failed =
                comm_all_reduce(ins->group, c->shape->out, COMM_SUM, c->joined, n, c->scratch);
    ins->kernels->accumulate(c->shape->out, n, c->joined, ins->out[0]);
}

static void join_runs_of(const call *c, const char *first, int n, char *out) {
    const void *run[MAX_REDUCTION_BLOCKS];
    for (int i = 0; i < n; i++)
        run[i] = first + i * sum_bytes(c->shape);
    join_parts(c->shape->out, COMM_SUM, run, n, c->shape->m * c->shape->n, out);
}

// Computes the sums that this rank sends: its runs, added to their neighbours on this rank.
static void compute_runs(const call *c, char *told) {
    const op_attrs *attrs = &c->ins->node->attrs;
    const int64_t tokens = c->shape->k, runs = runs_of_rank(attrs), bytes = sum_bytes(c->shape);
    const int n_joined = runs_joined_here(attrs);
    for (int64_t i = 0; i < runs; i++) {
        const int64_t first = tokens * i / runs, length = tokens * (i + 1) / runs - first;
        run_product(c, length > tokens / runs, first, c->joined + i % n_joined * bytes);
        if ((i + 1) % n_joined == 0)
            join_runs_of(c, c->joined, n_joined, told + i / n_joined * bytes);
    }
}

static void exchange_runs(const call *c) {
    const instruction *ins = c->ins;
    const op_attrs *attrs = &ins->node->attrs;
    const int64_t bytes = sum_bytes(c->shape), mine = n_sent(ins->node) * bytes;
    const int in_sum = runs_of_sum(attrs) / runs_joined_here(attrs);
    char *told = c->joined + runs_joined_here(attrs) * bytes, *all = told + mine;
    compute_runs(c, told);
    if (ins->group) *ins->failed = comm_all_gather(ins->group, told, mine, NULL, all);
    for (int64_t i = 0; i < sums_of_tokens(attrs); i++) {
        char *sum = all + i * in_sum * bytes;
        join_runs_of(c, sum, in_sum, sum);
        ins->kernels->accumulate(c->shape->out, c->shape->m * c->shape->n, sum,
                (char *)ins->out[0] + i / partial_sums_of(attrs) * bytes);
    }
}

void grad_product_run(const instruction *ins, const gemm_shape *shape, const void *a,
        const void *b) {
    const int64_t joined = joined_bytes(ins->node, shape);
    const call c = {.ins = ins,
            .shape = shape,
            .a = a,
            .b = b,
            .joined = ins->workspace,
            .scratch = (char *)ins->workspace + joined,
            .scratch_bytes = ins->workspace_bytes - joined};
    if (!ranks_join(ins->node))
        add_in_place(&c);
    else if (tells_runs(&ins->node->attrs))
        exchange_runs(&c);
    else
        reduce_sum(&c);
}
