// Computes linear_cross_entropy and its gradient, one chunk of rows after the other: the logits in
// the accumulation type, then their gradient in the compute type in the same memory. Each reduction
// block of the row (row_blocks) begins a new chunk, so that it is computed as on a rank that has
// only this one. A chunk holds whole partial sums (docs/adr/0026), which are added to the gradient
// of the table one after the other, or part of one partial sum.
//
// Workspace: logits of a chunk | scratch of the products | loss of each row (double; without
// gradient it is an output). If the vocabulary has reduction blocks or is split over ranks, also:
// row_part of each row of a chunk in each reduction block, of this rank and of all ranks | sums of
// exponentials of this rank | the gradient of the table, if it is summed apart.
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/elementary.h"
#include "base/round.h"
#include "ir/token_sums.h"

enum { LOGITS, DH, DW, N_PRODUCTS }; // of a full chunk; those of a shorter last chunk follow
_Static_assert(2 * N_PRODUCTS <= MAX_GEMMS, "an instruction holds both sets of products");

// The partial softmax of a row in one reduction block of the vocabulary.
typedef struct row_part {
    double lse; // log of the sum of exponentials
    double own; // logit of the label; -inf: it is in another reduction block
} row_part;

typedef struct loss_call {
    const instruction *ins;
    char *logits, *scratch; // scratch: of products
    int64_t scratch_bytes;
    double *loss; // by row
    int64_t first, n_vocab;
    dtype dt;
    bool grad;
    // If the vocabulary has reduction blocks: `mine` [m][blocks] of this rank, `all`
    // [ranks][m][blocks], and `sums` [m][blocks] of exp(logit - largest in the block), which
    // replace the logits.
    int blocks;
    int64_t block; // rows of the table
    row_part *mine, *all;
    double *sums;
    int64_t m;
    char *dw,
            *apart; // gradient of the table, for a reduction block of the row; NULL: not summed apart
    int64_t partial_sum; // rows
} loss_call;

static int64_t logits_row_bytes(const node *n) {
    return n->in[1]->dim[0] * dtype_bytes(dtype_acc(n->in[0]->dt));
}

static int64_t rows_of_partial_sum(const node *n) {
    return n->in[0]->dim[0] / sums_of_tokens(&n->attrs);
}

// Returns the number of rows after which a new chunk must begin: those of a reduction block of the
// row, or of a partial sum that is longer than a chunk.
static int64_t rows_of_run(const node *n) {
    const int64_t partial_sum = rows_of_partial_sum(n);
    return n->attrs.vocabulary.chunk < partial_sum ? partial_sum
                                                   : partial_sum * partial_sums_of(&n->attrs);
}

static gemm_shape logits_shape(const node *n, int64_t rows) {
    const int64_t v = n->in[1]->dim[0], width = n->in[1]->dim[1];
    return (gemm_shape){.m = rows,
            .n = v,
            .k = width,
            .tb = true,
            .lda = width,
            .ldb = width,
            .ldc = v,
            .in = n->in[0]->dt,
            .out = dtype_acc(n->in[0]->dt),
            .scale = 1,
            .blocks = tensor_blocks(n->in[1])};
}

static gemm_shape dh_shape(const node *n, int64_t rows) {
    const int64_t width = n->in[1]->dim[1];
    const dtype dt = n->in[0]->dt;
    return (gemm_shape){.m = rows,
            .n = width,
            .k = n->in[1]->dim[0],
            .lda = logits_row_bytes(n) / dtype_bytes(dt),
            .ldb = width,
            .ldc = width,
            .in = dt,
            .out = n->attrs.sum.dx_wide ? dtype_acc(dt) : dt,
            .scale = 1,
            .blocks = tensor_blocks(n->in[1])};
}

static gemm_shape dw_shape(const node *n, int64_t rows) {
    const int64_t width = n->in[1]->dim[1], partial_sum = rows_of_partial_sum(n);
    const dtype dt = n->in[0]->dt;
    return (gemm_shape){.m = n->in[1]->dim[0],
            .n = width,
            .k = rows < partial_sum ? rows : partial_sum,
            .ta = true,
            .lda = logits_row_bytes(n) / dtype_bytes(dt),
            .ldb = width,
            .ldc = width,
            .in = dt,
            .out = dtype_acc(dt),
            .accumulate = true,
            .scale = 1};
}

static gemm_shape shape_of(const node *n, int product, int64_t rows) {
    return product == LOGITS ? logits_shape(n, rows)
           : product == DH   ? dh_shape(n, rows)
                             : dw_shape(n, rows);
}

static bool has_product(const node *n, int product) {
    if (product == LOGITS) return true;
    if (n->op == OP_linear_cross_entropy) return false;
    return !(product == DH ? n->attrs.vocabulary.skip_dx : n->attrs.vocabulary.skip_dw);
}

static int64_t logits_bytes(const node *n) {
    return round_up(n->attrs.vocabulary.chunk * logits_row_bytes(n), 64);
}

// --- reduction blocks
static int n_ranks(const node *n) {
    return n->attrs.mesh.ranks > 1 ? n->attrs.mesh.ranks : 1;
}

static int n_blocks(const node *n) {
    return n->attrs.sum.blocks > 1 ? n->attrs.sum.blocks : 1;
}

static bool has_blocks(const node *n) {
    return n_ranks(n) > 1 || n_blocks(n) > 1;
}

static int64_t rows_per_block(const node *n) {
    return n->attrs.sum.blocks > 0 ? n->attrs.vocabulary.part / n->attrs.sum.blocks
                                   : n->in[1]->dim[0];
}

// Returns the tree of the sum over the vocabulary in dh.
static gemm_tree vocabulary_tree(const node *n) {
    const int64_t block = rows_per_block(n), rest = n->in[1]->dim[0] % block;
    gemm_tree tree = {.n_blocks = n->attrs.sum.blocks, .n_segments = n->attrs.sum.blocks > 0};
    if (tree.n_segments == 0) return tree;
    tree.each[0] = block;
    tree.last = rest;
    return tree;
}

// Returns the tree of the products of a chunk, which is part of a partial sum or holds several.
static gemm_tree product_tree(const node *n, int product, int64_t rows) {
    gemm_tree tree = {0};
    if (product == DW) tree.partial_sums = rows / rows_of_partial_sum(n);
    return product == DH ? vocabulary_tree(n) : tree;
}

static int64_t products_bytes(const node *n, int n_threads) {
    const int64_t rows = rows_of_run(n), chunk = n->attrs.vocabulary.chunk,
                  sizes[] = {chunk, rows % chunk};
    int64_t largest = 0;
    for (int i = 0; i < 2; i++) {
        if (sizes[i] == 0 || sizes[i] > rows) continue;
        for (int k = 0; k < N_PRODUCTS; k++) {
            if (!has_product(n, k)) continue;
            const gemm_shape shape = shape_of(n, k, sizes[i]);
            const gemm_tree tree = product_tree(n, k, sizes[i]);
            const int64_t bytes = gemm_workspace(&shape, &tree, n_threads);
            if (bytes > largest) largest = bytes;
        }
    }
    return largest;
}

static int64_t chunk_blocks(const node *n) {
    return has_blocks(n) ? n->attrs.vocabulary.chunk * n_blocks(n) : 0;
}

static int64_t losses_bytes(const node *n) {
    if (n->op == OP_linear_cross_entropy) return 0;
    return n->in[0]->dim[0] * (int64_t)sizeof(double);
}

static int64_t before_apart_bytes(const node *n, int n_threads) {
    const int64_t parts = (1 + n_ranks(n)) * (int64_t)sizeof(row_part) + (int64_t)sizeof(double);
    return round_up(logits_bytes(n) + products_bytes(n, n_threads) + losses_bytes(n) +
                            chunk_blocks(n) * parts,
            64);
}

static bool sums_apart(const node *n) {
    return n->attrs.sum.apart && n->op == OP_linear_cross_entropy_grad && has_product(n, DW);
}

static int64_t loss_workspace(const node *n, int n_threads) {
    const tensor *w = n->in[1];
    return before_apart_bytes(n, n_threads) +
           (sums_apart(n) ? tensor_elements(w) * dtype_bytes(dtype_acc(w->dt)) : 0);
}

// --- rows of a vocabulary in reduction blocks
// Returns the label's index in this rank's part; outside [0, n_vocab): another rank's, or none.
static int64_t label_here(const loss_call *call, int64_t row) {
    const comm_group *group = call->ins->group;
    const int64_t before = group ? (int64_t)group_place(group) * call->blocks * call->block : 0;
    return ((const int32_t *)call->ins->in[2])[row] - before;
}

static int64_t block_length(const loss_call *call, int block) {
    const int64_t left = call->n_vocab - block * call->block;
    return left < call->block ? left : call->block;
}

static double logit_at(dtype acc, const char *logits, int64_t i) {
    if (acc == DT_F64) return ((const double *)(const void *)logits)[i];
    return (double)((const float *)(const void *)logits)[i];
}

// Replaces the logits by their exponentials.
static void exponentiate_row(void *arg, int64_t r) {
    const loss_call *call = arg;
    const dtype acc = dtype_acc(call->dt);
    const int64_t label = label_here(call, call->first + r);
    char *logits = call->logits + r * logits_row_bytes(call->ins->node);
    for (int block = 0; block < call->blocks; block++) {
        const int64_t begin = block * call->block, n = block_length(call, block),
                      at = r * call->blocks + block;
        const bool own = label >= begin && label < begin + n;
        row_part *part = &call->mine[at];
        part->own = own ? logit_at(acc, logits, label) : -HUGE_VAL;
        double max;
        call->sums[at] =
                call->ins->kernels->exponents(call->dt, n, logits + begin * dtype_bytes(acc), &max);
        part->lse = max + drv_log(call->sums[at]);
    }
}

// Combines the reduction blocks in order, with the same result on all ranks.
static row_part join_parts_of(const loss_call *call, int64_t r) {
    const int ranks = n_ranks(call->ins->node);
    row_part whole = {-HUGE_VAL, -HUGE_VAL};
    double max = -HUGE_VAL, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < ranks; i++)
            for (int block = 0; block < call->blocks; block++) {
                const row_part *part = &call->all[(i * call->m + r) * call->blocks + block];
                if (pass == 0)
                    max = fmax(max, part->lse);
                else
                    sum += drv_exp(part->lse - max);
                whole.own = fmax(whole.own, part->own);
            }
    whole.lse = max + drv_log(sum);
    return whole;
}

// Returns the gradient of the row's loss, or of the sum that includes it.
static double scale_of(const loss_call *call, int64_t row) {
    const node *loss = call->ins->node;
    const bool of_tokens = loss->in[3]->dim[0] == loss->in[0]->dim[0];
    return ((const double *)call->ins->in[3])[of_tokens ? row : row / call->partial_sum];
}

static void put_number(dtype dt, char *p, int64_t i, double x) {
    const uint16_t rounded = f32_to_bf16((float)x);
    const float single = (float)x;
    memcpy(p + i * dtype_bytes(dt),
            dt == DT_BF16  ? (const void *)&rounded
            : dt == DT_F32 ? (const void *)&single
                           : (const void *)&x,
            (size_t)dtype_bytes(dt));
}

static void finish_row(void *arg, int64_t index) {
    const loss_call *call = arg;
    const int64_t row = call->first + index, label = label_here(call, row);
    char *logits = call->logits + index * logits_row_bytes(call->ins->node);
    const row_part whole = join_parts_of(call, index);
    const bool counted = ((const int32_t *)call->ins->in[2])[row] >= 0;
    call->loss[row] = counted ? whole.lse - whole.own : 0;
    if (!call->grad) return;
    if (!counted) {
        memset(logits, 0, (size_t)(call->n_vocab * dtype_bytes(call->dt)));
        return;
    }
    const int64_t acc_bytes = dtype_bytes(dtype_acc(call->dt)), bytes = dtype_bytes(call->dt);
    const double scale = scale_of(call, row);
    // In rising order: a gradient overwrites only exponentials that are no longer needed.
    for (int block = 0; block < call->blocks; block++) {
        const int64_t begin = block * call->block, at = index * call->blocks + block;
        const double share = drv_exp(call->mine[at].lse - whole.lse);
        call->ins->kernels->scaled(call->dt, block_length(call, block), logits + begin * acc_bytes,
                scale * share / call->sums[at], logits + begin * bytes);
    }
    if (label >= 0 && label < call->n_vocab)
        put_number(call->dt, logits, label, scale * (drv_exp(whole.own - whole.lse) - 1));
}

static void process_row(void *arg, int64_t r) {
    exponentiate_row(arg, r);
    finish_row(arg, r);
}

static void process_rows(loss_call *call, int64_t m) {
    const instruction *ins = call->ins;
    call->m = m;
    if (!ins->group) {
        call->all = call->mine;
        par_for(m, process_row, call); // while the row is in the cache
        return;
    }
    par_for(m, exponentiate_row, call);
    const int64_t bytes = m * call->blocks * (int64_t)sizeof(row_part);
    *ins->failed = comm_all_gather(ins->group, call->mine, bytes, NULL, call->all);
    if (*ins->failed == DRV_OK) par_for(m, finish_row, call);
}

static void loss_row(void *arg, int64_t r) {
    const loss_call *call = arg;
    const int64_t row = call->first + r;
    const int32_t label = ((const int32_t *)call->ins->in[2])[row];
    char *logits = call->logits + r * logits_row_bytes(call->ins->node);
    call->loss[row] = 0;
    if (label >= 0)
        call->loss[row] = call->ins->kernels->cross_entropy(call->dt, call->n_vocab, logits, label,
                call->grad ? scale_of(call, row) : 0, call->grad ? logits : NULL);
    else if (call->grad)
        memset(logits, 0, (size_t)(call->n_vocab * dtype_bytes(call->dt)));
}

// --- the gradient of the table for one run of rows
static void add_table_chunk(void *arg, int64_t c) {
    const loss_call *call = arg;
    const dtype acc = dtype_acc(call->dt);
    const int64_t n = tensor_elements(call->ins->node->in[1]), first = c * CHUNK_ELEMENTS;
    call->ins->kernels->accumulate(acc, chunk_length(n, CHUNK_ELEMENTS, c),
            call->apart + first * dtype_bytes(acc), call->dw + first * dtype_bytes(acc));
}

// Returns the memory in which the products of chunks are summed; NULL: the node has none.
static char *begin_table(loss_call *call, int64_t own_block) {
    const node *loss = call->ins->node;
    if (!has_product(loss, DW)) return NULL;
    call->dw = output_at(call->ins, loss->n_out - 1, own_block * tensor_elements(loss->in[1]));
    if (!call->apart) return call->dw;
    memset(call->apart, 0,
            (size_t)(tensor_elements(loss->in[1]) * dtype_bytes(dtype_acc(call->dt))));
    return call->apart;
}

static void end_table(loss_call *call) {
    const int64_t n = tensor_elements(call->ins->node->in[1]);
    if (call->apart) par_for(div_up(n, CHUNK_ELEMENTS), add_table_chunk, call);
}

static void multiply(const loss_call *call, const gemm *g, const void *a, const void *b, void *c) {
    gemm_run(g, a, b, c, call->scratch, call->scratch_bytes);
}

// Computes m rows from call->first on.
static void chunk_of_loss(loss_call *call, int64_t m, char *dw) {
    const instruction *ins = call->ins;
    const node *loss = ins->node;
    const int64_t first = call->first * loss->in[0]->dim[1];
    gemm *const *g = ins->gemm + (m < loss->attrs.vocabulary.chunk ? N_PRODUCTS : 0);
    multiply(call, g[LOGITS], input_at(ins, 0, first), ins->in[1], call->logits);
    if (call->blocks)
        process_rows(call, m);
    else
        par_for(m, loss_row, call);
    if (*ins->failed != DRV_OK) return;
    if (has_product(loss, DH))
        multiply(call, g[DH], call->logits, ins->in[1], output_at(ins, 1, first));
    if (dw) multiply(call, g[DW], call->logits, input_at(ins, 0, first), dw);
}

// Computes the rows of a reduction block, or of a partial sum that is longer than a chunk.
static void run_of_loss(loss_call *call, int64_t begin) {
    const node *loss = call->ins->node;
    const int64_t rows = rows_of_run(loss), chunk = loss->attrs.vocabulary.chunk;
    char *dw = begin_table(call, begin / (call->partial_sum * partial_sums_of(&loss->attrs)));
    for (call->first = begin; call->first < begin + rows; call->first += chunk) {
        const int64_t left = begin + rows - call->first;
        chunk_of_loss(call, left < chunk ? left : chunk, dw);
        if (*call->ins->failed != DRV_OK) return;
    }
    end_table(call);
    for (int64_t at = begin; at < begin + rows; at += call->partial_sum) {
        double sum = 0;
        for (int64_t row = at; row < at + call->partial_sum; row++)
            sum += call->loss[row];
        ((double *)call->ins->out[0])[at / call->partial_sum] = sum;
    }
}

static void loss(const instruction *ins) {
    const node *loss = ins->node;
    loss_call call = {.ins = ins,
            .logits = ins->workspace,
            .n_vocab = loss->in[1]->dim[0],
            .dt = loss->in[0]->dt,
            .partial_sum = rows_of_partial_sum(loss),
            .grad = loss->op == OP_linear_cross_entropy_grad};
    call.scratch = call.logits + logits_bytes(loss);
    call.scratch_bytes = products_bytes(loss, par_threads());
    char *own = call.scratch + call.scratch_bytes;
    call.loss = call.grad ? (double *)(void *)own : ins->out[1];
    if (sums_apart(loss))
        call.apart = (char *)ins->workspace + before_apart_bytes(loss, par_threads());
    if (has_blocks(loss)) {
        call.blocks = n_blocks(loss);
        call.block = rows_per_block(loss);
        call.mine = (row_part *)(void *)(own + losses_bytes(loss));
        call.all = call.mine + chunk_blocks(loss);
        call.sums = (double *)(void *)(call.all + n_ranks(loss) * chunk_blocks(loss));
    }
    const int64_t n_rows = loss->in[0]->dim[0], in_run = rows_of_run(loss);
    for (int64_t begin = 0; begin < n_rows && *ins->failed == DRV_OK; begin += in_run)
        run_of_loss(&call, begin);
}

static drv_status lower_chunk(arena *a, gemm_machine *m, const node *n, int64_t rows, gemm **out) {
    for (int k = 0; k < N_PRODUCTS; k++) {
        const gemm_shape shape = shape_of(n, k, rows);
        const gemm_tree tree = product_tree(n, k, rows);
        if (has_product(n, k)) DRV_TRY(gemm_new(a, m, &shape, &tree, &out[k]));
    }
    return DRV_OK;
}

static drv_status lower_loss(arena *a, gemm_machine *m, const node *n, instruction *out) {
    const int64_t rows = rows_of_run(n), rest = rows % n->attrs.vocabulary.chunk;
    if (rows >= n->attrs.vocabulary.chunk)
        DRV_TRY(lower_chunk(a, m, n, n->attrs.vocabulary.chunk, out->gemm));
    return rest ? lower_chunk(a, m, n, rest, out->gemm + N_PRODUCTS) : DRV_OK;
}

const cpu_op cpu_op_linear_cross_entropy = {.run = loss,
        .workspace = loss_workspace,
        .lower = lower_loss};
const cpu_op cpu_op_linear_cross_entropy_grad = {.run = loss,
        .workspace = loss_workspace,
        .lower = lower_loss};
