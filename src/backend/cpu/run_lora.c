// The ops of low-rank branches: products on ranges of columns of their inputs or outputs.
#include <string.h>

#include "backend/cpu/grad_product.h"
#include "ir/op.h"

_Static_assert((int)MAX_BRANCHES <= (int)MAX_GEMMS, "a product for each branch");

// One product, and the elements at which its operands begin.
typedef struct branch {
    gemm_shape shape;
    int64_t a, c;
} branch;

// Returns the first column of branch i in t; the inputs from `first` on are the B of the branches.
static int64_t first_column(const node *n, int first, int i) {
    int64_t from = 0;
    for (int k = 0; k < i; k++)
        from += n->in[first + k]->dim[1];
    return from;
}

// y[:, columns] += alpha t_i B_i^T
static branch up_branch(const node *n, int i) {
    const tensor *y = n->out[0], *t = n->in[1], *b = n->in[2 + i];
    const int64_t rank = b->dim[1];
    return (branch){{.m = y->dim[0],
                            .n = b->dim[0],
                            .k = rank,
                            .tb = true,
                            .lda = t->dim[1],
                            .ldb = rank,
                            .ldc = y->dim[1],
                            .in = t->dt,
                            .out = y->dt,
                            .accumulate = true,
                            .scale = n->attrs.low_rank.branches[i].alpha},
            first_column(n, 2, i), n->attrs.low_rank.branches[i].column};
}

// dt_i = alpha dy[:, columns] B_i
static branch grad_branch(const node *n, int i) {
    const tensor *dt = n->out[0], *dy = n->in[0], *b = n->in[1 + i];
    const int64_t rank = b->dim[1];
    return (branch){{.m = dy->dim[0],
                            .n = rank,
                            .k = b->dim[0],
                            .lda = dy->dim[1],
                            .ldb = rank,
                            .ldc = dt->dim[1],
                            .in = dy->dt,
                            .out = dt->dt,
                            .scale = n->attrs.low_rank.branches[i].alpha},
            n->attrs.low_rank.branches[i].column, first_column(n, 1, i)};
}

// acc += alpha dy[:, columns]^T t_i
static gemm_shape grad_b_shape(const node *n) {
    const tensor *dy = n->in[0], *t = n->in[1], *acc = n->out[0];
    const int columns = acc->n_dims - 1; // reduction blocks of the row come before both dims
    return (gemm_shape){.m = acc->dim[columns - 1],
            .n = acc->dim[columns],
            .k = dy->dim[0],
            .ta = true,
            .lda = dy->dim[1],
            .ldb = t->dim[1],
            .ldc = acc->dim[columns],
            .in = dy->dt,
            .out = acc->dt,
            .accumulate = true,
            .scale = n->attrs.low_rank.branches[0].alpha};
}

// Returns the tree over the columns of a branch that dt sums over.
static gemm_tree branch_tree(const node *n, const branch *part) {
    const gemm_tree none = {0};
    const int blocks = n->op == OP_lora_up_grad ? n->attrs.sum.blocks : 0;
    if (blocks < 2) return none;
    return (gemm_tree){.n_blocks = blocks, .n_segments = 1, .each = {part->shape.k / blocks}};
}

// Return product i of a node with a B for each branch, and the index of the first B.
static branch branch_of(const node *n, int i) {
    return n->op == OP_lora_up ? up_branch(n, i) : grad_branch(n, i);
}

static int first_b(const node *n) {
    return n->op == OP_lora_up ? 2 : 1;
}

static drv_status lower_branches(arena *a, gemm_machine *m, const node *n, instruction *out) {
    for (int i = 0; i < n->n_in - first_b(n); i++) {
        const branch part = branch_of(n, i);
        const gemm_tree tree = branch_tree(n, &part);
        DRV_TRY(gemm_new(a, m, &part.shape, &tree, &out->gemm[i]));
    }
    return DRV_OK;
}

static int64_t branches_workspace(const node *n, int n_threads) {
    int64_t largest = 0;
    for (int i = 0; i < n->n_in - first_b(n); i++) {
        const branch part = branch_of(n, i);
        const gemm_tree tree = branch_tree(n, &part);
        const int64_t bytes = gemm_workspace(&part.shape, &tree, n_threads);
        if (bytes > largest) largest = bytes;
    }
    return largest;
}

// The left operand is the input before the first B.
static void run_branches(const instruction *ins) {
    const node *n = ins->node;
    const int first = first_b(n);
    for (int i = 0; i < n->n_in - first; i++) {
        const branch part = branch_of(n, i);
        gemm_run(ins->gemm[i], input_at(ins, first - 1, part.a), ins->in[first + i],
                output_at(ins, 0, part.c), ins->workspace, ins->workspace_bytes);
    }
}

static void lora_up(const instruction *ins) {
    if (ins->out[0] != ins->in[0])
        memcpy(ins->out[0], ins->in[0], (size_t)tensor_bytes(ins->node->out[0]));
    run_branches(ins);
}

const cpu_op cpu_op_lora_up = {.run = lora_up,
        .workspace = branches_workspace,
        .lower = lower_branches};
const cpu_op cpu_op_lora_up_grad = {.run = run_branches,
        .workspace = branches_workspace,
        .lower = lower_branches};

static void lora_up_grad_b(const instruction *ins) {
    const op_attrs *attrs = &ins->node->attrs;
    const gemm_shape shape = grad_b_shape(ins->node);
    grad_product_run(ins, &shape, input_at(ins, 0, attrs->low_rank.branches[0].column),
            input_at(ins, 1, attrs->low_rank.from));
}

static int64_t grad_b_workspace(const node *n, int n_threads) {
    const gemm_shape shape = grad_b_shape(n);
    return grad_product_workspace(n, &shape, n_threads);
}

static drv_status lower_grad_b(arena *a, gemm_machine *m, const node *n, instruction *out) {
    const gemm_shape shape = grad_b_shape(n);
    return grad_product_lower(a, m, n, &shape, out);
}

const cpu_op cpu_op_lora_up_grad_b = {.run = lora_up_grad_b,
        .workspace = grad_b_workspace,
        .lower = lower_grad_b};
