// linear_cross_entropy and its gradient: chunk by chunk of rows; logits in the accumulation type,
// then their gradient in the compute type in the same place.
//
// Workspace: logits of a chunk | scratch of the products | loss of each row (double), which without
// gradient is an output; of a vocabulary that is split over ranks also: what this rank and all
// ranks have found of each row of a chunk | a row of logits for each thread.
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/round.h"

enum { LOGITS, DH, DW, N_PRODUCTS }; // those of a full chunk; those of the last, shorter one follow
_Static_assert(2 * N_PRODUCTS <= MAX_GEMMS, "an instruction holds both sets of products");

// What a rank finds of a row in its part of the vocabulary.
typedef struct row_part {
    double lse; // log of the sum of exponents
    double own; // logit of the label; -inf: it is another rank's
} row_part;

typedef struct loss_call {
    const instruction *ins;
    char *logits;
    double *loss; // by row
    int64_t first, n_vocab;
    dtype dt;
    double scale;
    bool grad;
    // Of a split vocabulary: [m] of this rank, [ranks][m] of all, and a row for each thread.
    row_part *mine, *all;
    char *copies;
    int64_t m;
} loss_call;

typedef struct loss_shapes {
    gemm_shape product[N_PRODUCTS];
} loss_shapes;

static int64_t logits_row_bytes(const node *n) {
    return n->in[1]->dim[0] * dtype_bytes(dtype_acc(n->in[0]->dt));
}

static loss_shapes shapes(const node *n, int64_t rows) {
    const int64_t v = n->in[1]->dim[0], width = n->in[1]->dim[1];
    const dtype dt = n->in[0]->dt, acc = dtype_acc(dt);
    const int64_t ld = logits_row_bytes(n) / dtype_bytes(dt); // of the gradient of the logits
    return (loss_shapes){{{rows, v, width, false, true, width, width, v, dt, acc, false, 1},
            {rows, width, v, false, false, ld, width, width, dt, dt, false, 1},
            {v, width, rows, true, false, ld, width, width, dt, acc, true, 1}}};
}

static bool has_product(const node *n, int product) {
    if (product == LOGITS) return true;
    if (n->op == OP_linear_cross_entropy) return false;
    return !(product == DH ? n->attrs.skip_dx : n->attrs.skip_dw);
}

static int64_t logits_bytes(const node *n) {
    return round_up(n->attrs.chunk * logits_row_bytes(n), 64);
}

static int64_t products_bytes(const node *n, int n_threads) {
    const int64_t rows = n->in[0]->dim[0], chunk = n->attrs.chunk, sizes[] = {chunk, rows % chunk};
    int64_t largest = 0;
    for (int i = 0; i < 2; i++) {
        if (sizes[i] == 0 || sizes[i] > rows) continue;
        const loss_shapes s = shapes(n, sizes[i]);
        for (int k = 0; k < N_PRODUCTS; k++) {
            if (!has_product(n, k)) continue;
            const int64_t bytes = gemm_workspace(&s.product[k], n_threads);
            if (bytes > largest) largest = bytes;
        }
    }
    return largest;
}

static int64_t parts_bytes(const node *n) {
    return n->attrs.ranks > 1 ? n->attrs.chunk * (int64_t)sizeof(row_part) : 0;
}

static int64_t losses_bytes(const node *n) {
    if (n->op == OP_linear_cross_entropy) return 0;
    return n->in[0]->dim[0] * (int64_t)sizeof(double);
}

static int64_t loss_workspace(const node *n, int n_threads) {
    const int64_t ranks = n->attrs.ranks, copies = ranks > 1 ? n_threads * logits_row_bytes(n) : 0;
    return logits_bytes(n) + products_bytes(n, n_threads) + losses_bytes(n) +
           (1 + ranks) * parts_bytes(n) + copies;
}

// --- rows of a vocabulary that is split over ranks
static int64_t label_here(const loss_call *call, int64_t row) {
    const int64_t label = ((const int32_t *)call->ins->in[2])[row] -
                          group_place(call->ins->group) * call->n_vocab;
    return label >= 0 && label < call->n_vocab ? label : -1;
}

static double logit_at(dtype acc, const char *logits, int64_t i) {
    if (acc == DT_F64) return ((const double *)(const void *)logits)[i];
    return (double)((const float *)(const void *)logits)[i];
}

// The kernel overwrites what it reads, and the logits are needed again: it gets a copy.
static void look_at_row(void *arg, int64_t r, int thread) {
    const loss_call *call = arg;
    const int64_t bytes = logits_row_bytes(call->ins->node),
                  label = label_here(call, call->first + r);
    const char *logits = call->logits + r * bytes;
    char *copy = call->copies + thread * bytes;
    memcpy(copy, logits, (size_t)bytes);
    call->mine[r] = (row_part){call->ins->kernels->cross_entropy(call->dt, call->n_vocab, copy, -1,
                                       0, NULL),
            label < 0 ? -HUGE_VAL : logit_at(dtype_acc(call->dt), logits, label)};
}

// Joined in the order of ranks, alike on all.
static row_part join_parts_of(const loss_call *call, int64_t r) {
    const int ranks = call->ins->node->attrs.ranks;
    row_part whole = {-HUGE_VAL, -HUGE_VAL};
    double max = -HUGE_VAL, sum = 0;
    for (int i = 0; i < ranks; i++)
        max = fmax(max, call->all[i * call->m + r].lse);
    for (int i = 0; i < ranks; i++) {
        const row_part *part = &call->all[i * call->m + r];
        sum += exp(part->lse - max);
        whole.own = fmax(whole.own, part->own);
    }
    whole.lse = max + log(sum);
    return whole;
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

static void split_row(void *arg, int64_t r, int thread) {
    (void)thread;
    const loss_call *call = arg;
    const int64_t row = call->first + r, label = label_here(call, row);
    char *logits = call->logits + r * logits_row_bytes(call->ins->node);
    const row_part whole = join_parts_of(call, r);
    const bool counted = ((const int32_t *)call->ins->in[2])[row] >= 0;
    call->loss[row] = counted ? whole.lse - whole.own : 0;
    if (!call->grad) return;
    if (!counted) {
        memset(logits, 0, (size_t)(call->n_vocab * dtype_bytes(call->dt)));
        return;
    }
    const double share = exp(call->mine[r].lse - whole.lse);
    call->ins->kernels->cross_entropy(call->dt, call->n_vocab, logits, -1, call->scale * share,
            logits);
    if (label >= 0)
        put_number(call->dt, logits, label, call->scale * (exp(whole.own - whole.lse) - 1));
}

static void split_rows(loss_call *call, int64_t m) {
    const instruction *ins = call->ins;
    call->m = m;
    par_for(m, look_at_row, call);
    *ins->failed =
            comm_all_gather(ins->group, call->mine, m * (int64_t)sizeof(row_part), NULL, call->all);
    if (*ins->failed == DRV_OK) par_for(m, split_row, call);
}

static void loss_row(void *arg, int64_t r, int thread) {
    (void)thread;
    const loss_call *call = arg;
    const int64_t row = call->first + r;
    const int32_t label = ((const int32_t *)call->ins->in[2])[row];
    char *logits = call->logits + r * logits_row_bytes(call->ins->node);
    call->loss[row] = 0;
    if (label >= 0)
        call->loss[row] = call->ins->kernels->cross_entropy(call->dt, call->n_vocab, logits, label,
                call->scale, call->grad ? logits : NULL);
    else if (call->grad)
        memset(logits, 0, (size_t)(call->n_vocab * dtype_bytes(call->dt)));
}

static void loss(const instruction *ins) {
    const node *n = ins->node;
    const int64_t rows = n->in[0]->dim[0], width = n->in[0]->dim[1], chunk = n->attrs.chunk;
    loss_call call = {.ins = ins,
            .logits = ins->workspace,
            .n_vocab = n->in[1]->dim[0],
            .dt = n->in[0]->dt,
            .grad = n->op == OP_linear_cross_entropy_grad};
    char *scratch = call.logits + logits_bytes(n),
         *own = scratch + products_bytes(n, par_threads());
    call.loss = call.grad ? (double *)(void *)own : ins->out[1];
    if (call.grad) call.scale = *(const double *)ins->in[3];
    if (ins->group) {
        call.mine = (row_part *)(void *)(own + losses_bytes(n));
        call.all = call.mine + chunk;
        call.copies = (char *)(call.all + n->attrs.ranks * chunk);
    }
    for (call.first = 0; call.first < rows; call.first += chunk) {
        const int64_t m = rows - call.first < chunk ? rows - call.first : chunk,
                      first = call.first * width;
        gemm *const *g = ins->gemm + (m < chunk ? N_PRODUCTS : 0);
        gemm_run(g[LOGITS], input_at(ins, 0, first), ins->in[1], call.logits, scratch);
        if (ins->group)
            split_rows(&call, m);
        else
            par_for(m, loss_row, &call);
        if (*ins->failed != DRV_OK) return;
        if (has_product(n, DH))
            gemm_run(g[DH], call.logits, ins->in[1], output_at(ins, 1, first), scratch);
        if (has_product(n, DW))
            gemm_run(g[DW], call.logits, input_at(ins, 0, first), ins->out[n->n_out - 1], scratch);
    }
    double sum = 0;
    for (int64_t row = 0; row < rows; row++)
        sum += call.loss[row];
    *(double *)ins->out[0] = sum;
}

static drv_status lower_chunk(arena *a, gemm_machine *m, const node *n, int64_t rows, gemm **out) {
    const loss_shapes s = shapes(n, rows);
    for (int k = 0; k < N_PRODUCTS; k++)
        if (has_product(n, k)) DRV_TRY(gemm_new(a, m, &s.product[k], &out[k]));
    return DRV_OK;
}

static drv_status lower_loss(arena *a, gemm_machine *m, const node *n, instruction *out) {
    const int64_t rows = n->in[0]->dim[0], rest = rows % n->attrs.chunk;
    if (rows >= n->attrs.chunk) DRV_TRY(lower_chunk(a, m, n, n->attrs.chunk, out->gemm));
    return rest ? lower_chunk(a, m, n, rest, out->gemm + N_PRODUCTS) : DRV_OK;
}

const cpu_op cpu_op_linear_cross_entropy = {.run = loss,
        .workspace = loss_workspace,
        .lower = lower_loss};
const cpu_op cpu_op_linear_cross_entropy_grad = {.run = loss,
        .workspace = loss_workspace,
        .lower = lower_loss};
