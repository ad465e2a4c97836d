// Ops of the update program, and barrier.
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/exact_sum.h"
#include "base/round.h"
#include "ir/shard.h"

// --- sum_squares: sums of SQUARES_CHUNK elements, added without rounding
typedef struct squares_call {
    const instruction *ins;
    int input;
    double *sums; // by SQUARES_CHUNK of this input
} squares_call;

// The rest of a tensor is added up as if zeros followed, as in a shard that is filled up.
static double squares_of(const squares_call *call, int64_t first, int64_t n) {
    const tensor *x = call->ins->node->in[call->input];
    const char *p = input_at(call->ins, call->input, first);
    if (n == SQUARES_CHUNK) return call->ins->kernels->sum_squares(x->dt, n, p);
    double filled[SQUARES_CHUNK] = {0}; // of any type
    memcpy(filled, p, (size_t)(n * dtype_bytes(x->dt)));
    return call->ins->kernels->sum_squares(x->dt, SQUARES_CHUNK, filled);
}

static void squares_chunk(void *arg, int64_t c, int thread) {
    (void)thread;
    const squares_call *call = arg;
    const int64_t all = tensor_elements(call->ins->node->in[call->input]),
                  end = c * CHUNK_ELEMENTS + chunk_length(all, CHUNK_ELEMENTS, c);
    for (int64_t at = c * CHUNK_ELEMENTS; at < end; at += SQUARES_CHUNK)
        call->sums[at / SQUARES_CHUNK] =
                squares_of(call, at, end - at < SQUARES_CHUNK ? end - at : SQUARES_CHUNK);
}

static drv_status sum_over_ranks(const instruction *ins, exact_sum *sum) {
    for (int axis = 0; axis < N_AXES; axis++) {
        if (!ins->along[axis]) continue;
        exact_settle(sum);
        DRV_TRY(comm_all_reduce(ins->along[axis], DT_F64, COMM_SUM, sum->limb, EXACT_LIMBS, NULL));
    }
    return DRV_OK;
}

static void sum_squares(const instruction *ins) {
    exact_sum sum = {.n_since = 0};
    squares_call call = {ins, 0, ins->workspace};
    for (call.input = 0; call.input < ins->node->n_in; call.input++) {
        if (call.input < ins->node->attrs.n_alike && ins->tensor_place > 0) continue;
        const int64_t n = tensor_elements(ins->node->in[call.input]);
        par_for(div_up(n, CHUNK_ELEMENTS), squares_chunk, &call);
        for (int64_t c = 0; c < div_up(n, SQUARES_CHUNK); c++)
            exact_add(&sum, call.sums[c]);
    }
    *ins->failed = sum_over_ranks(ins, &sum);
    *(double *)ins->out[0] = exact_value(&sum);
}

static int64_t sum_squares_workspace(const node *n, int n_threads) {
    (void)n_threads;
    int64_t largest = 0;
    for (int k = 0; k < n->n_in; k++)
        if (tensor_elements(n->in[k]) > largest) largest = tensor_elements(n->in[k]);
    return div_up(largest, SQUARES_CHUNK) * (int64_t)sizeof(double);
}

const cpu_op cpu_op_sum_squares = {.run = sum_squares, .workspace = sum_squares_workspace};

// --- adamw
static void adamw_chunk(void *arg, int64_t chunk, int thread) {
    (void)thread;
    const instruction *ins = arg;
    const op_attrs *attrs = &ins->node->attrs;
    const tensor *p = ins->node->in[0];
    const double norm2 = *(const double *)ins->in[4], *hyper = ins->in[5];
    const int64_t first = chunk * CHUNK_ELEMENTS,
                  n = chunk_length(tensor_elements(p), CHUNK_ELEMENTS, chunk);
    if (!isfinite(norm2)) {
        memset(output_at(ins, 3, first), 0, (size_t)(n * dtype_bytes(p->dt)));
        return;
    }
    adamw_args args = {.lr = hyper[0],
            .beta1 = attrs->beta1,
            .beta2 = attrs->beta2,
            .eps = attrs->eps,
            .weight_decay = attrs->weight_decay,
            .c1 = hyper[1],
            .c2 = hyper[2],
            .grad_scale = 1};
    if (hyper[3] > 0) args.grad_scale = fmin(1, hyper[3] / (sqrt(norm2) + 1e-6));
    ins->kernels->adamw(p->dt, n, output_at(ins, 0, first), output_at(ins, 1, first),
            output_at(ins, 2, first), output_at(ins, 3, first), &args,
            ins->node->n_in > 6 ? (uint16_t *)(void *)output_at(ins, 4, first) : NULL);
}

static void adamw(const instruction *ins) {
    run_chunks(ins, tensor_elements(ins->node->in[0]), CHUNK_ELEMENTS, adamw_chunk);
}

const cpu_op cpu_op_adamw = {.run = adamw};

// --- lanes
static void put_aside_chunk(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *ins = arg;
    const tensor *g = ins->node->in[0];
    const int64_t first = c * CHUNK_ELEMENTS,
                  n = chunk_length(tensor_elements(g), CHUNK_ELEMENTS, c);
    const size_t bytes = (size_t)(n * dtype_bytes(g->dt));
    memcpy(output_at(ins, 1, first), input_at(ins, 0, first), bytes);
    memset(output_at(ins, 0, first), 0, bytes);
}

static void put_aside(const instruction *ins) {
    run_chunks(ins, tensor_elements(ins->node->in[0]), CHUNK_ELEMENTS, put_aside_chunk);
}

const cpu_op cpu_op_put_aside = {.run = put_aside};

static void take_back_chunk(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *ins = arg;
    const tensor *g = ins->node->in[0];
    const int64_t first = c * CHUNK_ELEMENTS;
    ins->kernels->add(g->dt, chunk_length(tensor_elements(g), CHUNK_ELEMENTS, c),
            input_at(ins, 1, first), input_at(ins, 0, first), output_at(ins, 0, first));
}

static void take_back(const instruction *ins) {
    run_chunks(ins, tensor_elements(ins->node->in[0]), CHUNK_ELEMENTS, take_back_chunk);
}

const cpu_op cpu_op_take_back = {.run = take_back};

// An alias; nodes run in order.
const cpu_op cpu_op_barrier = {.run = NULL};
