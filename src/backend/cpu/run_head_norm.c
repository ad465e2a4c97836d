// Norms of the heads of queries and keys, and their gradients (ir/ops/head_norm.c), by the kernels
// of rmsnorm, which treat the heads of a token as rows.
//
// Legend: D head_dim; S sums over tokens (ir/token_sums.h); Q, K heads of queries and keys, H = Q +
// K all heads that are normalised.
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/round.h"
#include "ir/token_sums.h"

typedef struct head_shape {
    int64_t q, k, all, d, width; // heads, D, and numbers of a token
} head_shape;

static head_shape shape_of(const node *n) {
    const op_attrs *attrs = &n->attrs;
    return (head_shape){.q = attrs->heads.n_heads,
            .k = attrs->heads.n_kv_heads,
            .all = attrs->heads.n_heads + attrs->heads.n_kv_heads,
            .d = attrs->heads.head_dim,
            .width = (attrs->heads.n_heads + 2 * attrs->heads.n_kv_heads) * attrs->heads.head_dim};
}

// Copies the columns of values from input `from` to output 0.
static void copy_values(const instruction *ins, int from, const head_shape *shape, int64_t row) {
    const int64_t at = row * shape->width + shape->all * shape->d;
    if (ins->out[0] != ins->in[from])
        memcpy(output_at(ins, 0, at), input_at(ins, from, at),
                (size_t)(shape->k * shape->d * dtype_bytes(ins->node->out[0]->dt)));
}

static void head_norm_rows(const instruction *ins, int64_t first_row, int64_t rows) {
    const node *n = ins->node;
    const tensor *x = n->in[0];
    const head_shape shape = shape_of(n);
    const int64_t end = first_row + rows;
    for (int64_t row = first_row; row < end; row++) {
        const int64_t q = row * shape.width, k = q + shape.q * shape.d, r = row * shape.all;
        ins->kernels->rmsnorm(x->dt, shape.q, shape.d, input_at(ins, 0, q), NULL, ins->in[1],
                n->attrs.norm.eps, NULL, output_at(ins, 0, q), output_at(ins, 1, r));
        ins->kernels->rmsnorm(x->dt, shape.k, shape.d, input_at(ins, 0, k), NULL, ins->in[2],
                n->attrs.norm.eps, NULL, output_at(ins, 0, k), output_at(ins, 1, r + shape.q));
        copy_values(ins, 0, &shape, row);
    }
}

const cpu_op cpu_op_head_norm = {.rows = head_norm_rows};

// --- gradient. Workspace: sums over each head here, acc [S][H][D] | the same of all ranks, by place.
static int64_t vector_bytes(const node *n) {
    return n->attrs.heads.head_dim * dtype_bytes(dtype_acc(n->in[1]->dt));
}

static int64_t given_bytes(const node *n) {
    return sums_of_tokens(&n->attrs) * shape_of(n).all * vector_bytes(n);
}

// Computes head `c % H` for the tokens of sum `c / H`.
static void head_norm_grad_head(void *arg, int64_t c) {
    const instruction *ins = arg;
    const node *n = ins->node;
    const tensor *x = n->in[1];
    const head_shape shape = shape_of(n);
    const int64_t head = c % shape.all, tokens = x->dim[0] / sums_of_tokens(&n->attrs),
                  first = c / shape.all * tokens;
    const void *w = ins->in[head < shape.q ? 2 : 3];
    char *dw = n->attrs.norm.skip_dw ? NULL : (char *)ins->workspace + c * vector_bytes(n);
    if (dw) memset(dw, 0, (size_t)vector_bytes(n));
    for (int64_t row = first; row < first + tokens; row++) {
        const int64_t at = row * shape.width + head * shape.d;
        ins->kernels->rmsnorm_grad(x->dt, 1, shape.d, input_at(ins, 0, at), input_at(ins, 1, at), w,
                input_at(ins, 4, row * shape.all + head), NULL, output_at(ins, 0, at), dw);
        if (head == 0) copy_values(ins, 0, &shape, row);
    }
}

// Adds heads [first, first + n_heads) of every `replicas`-th rank in the order of ranks, and adds
// the sum to output o.
static void add_heads(const instruction *ins, char *given, int64_t sum, int64_t first,
        int64_t n_heads, int replicas, int o) {
    const node *n = ins->node;
    const int ranks = ins->group ? n->attrs.mesh.ranks : 1;
    const dtype acc = dtype_acc(n->in[1]->dt);
    const int64_t bytes = vector_bytes(n), d = n->attrs.heads.head_dim;
    char *all = given + (sum * shape_of(n).all + first) * bytes;
    for (int rank = 0; rank < ranks; rank += replicas)
        for (int64_t head = rank ? 0 : 1; head < n_heads; head++)
            ins->kernels->accumulate(acc, d, all + rank * given_bytes(n) + head * bytes, all);
    ins->kernels->accumulate(acc, d, all, output_at(ins, o, sum / partial_sums_of(&n->attrs) * d));
}

static void head_norm_grad(const instruction *ins) {
    const node *n = ins->node;
    const head_shape shape = shape_of(n);
    const int replicas = n->attrs.mesh.replicas > 1 ? n->attrs.mesh.replicas : 1;
    char *given = ins->workspace;
    run_chunks(ins, sums_of_tokens(&n->attrs) * shape.all, 1, head_norm_grad_head);
    if (n->attrs.norm.skip_dw) return;
    if (ins->group) {
        char *all = (char *)ins->workspace + round_up(given_bytes(n), 64);
        *ins->failed = comm_all_gather(ins->group, given, given_bytes(n), NULL, all);
        given = all;
    }
    for (int64_t sum = 0; sum < sums_of_tokens(&n->attrs); sum++) {
        add_heads(ins, given, sum, 0, shape.q, 1, 1);
        add_heads(ins, given, sum, shape.q, shape.k, replicas, 2);
    }
}

static int64_t head_norm_grad_workspace(const node *n, int n_threads DRV_UNUSED) {
    const int ranks = n->attrs.mesh.ranks > 1 ? n->attrs.mesh.ranks : 0;
    return n->attrs.norm.skip_dw ? 0 : round_up(given_bytes(n), 64) + ranks * given_bytes(n);
}

const cpu_op cpu_op_head_norm_grad = {.run = head_norm_grad,
        .workspace = head_norm_grad_workspace,
        .whole_axis = true};
