// Ops of the update program, barrier, and moves to the host.
#include <math.h>
#include <string.h>

#include "backend/cpu/adamw_numbers.h"
#include "base/round.h"

// --- sum_squares: exact sums of each chunk, then of all chunks
typedef struct squares_call {
    const instruction *ins;
    int input;
    exact_sum *sums; // by chunk of this input
} squares_call;

static void squares_chunk(void *arg, int64_t c) {
    const squares_call *call = arg;
    const tensor *x = call->ins->node->in[call->input];
    exact_sum *sum = &call->sums[c];
    *sum = (exact_sum){.n_since = 0};
    add_squares(call->ins->kernels, x->dt, input_at(call->ins, call->input, c * CHUNK_ELEMENTS),
            chunk_length(tensor_elements(x), CHUNK_ELEMENTS, c), sum);
    exact_settle(sum);
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
        if (call.input < ins->node->attrs.mesh.n_alike && ins->tensor_place > 0) continue;
        const int64_t n_chunks = div_up(tensor_elements(ins->node->in[call.input]), CHUNK_ELEMENTS);
        par_for(n_chunks, squares_chunk, &call);
        for (int64_t c = 0; c < n_chunks; c++)
            exact_join(&sum, &call.sums[c]);
    }
    *ins->failed = sum_over_ranks(ins, &sum);
    *(double *)ins->out[0] = exact_value(&sum);
}

static int64_t sum_squares_workspace(const node *n, int n_threads DRV_UNUSED) {
    int64_t largest = 0;
    for (int k = 0; k < n->n_in; k++)
        if (tensor_elements(n->in[k]) > largest) largest = tensor_elements(n->in[k]);
    return div_up(largest, CHUNK_ELEMENTS) * (int64_t)sizeof(exact_sum);
}

const cpu_op cpu_op_sum_squares = {.run = sum_squares, .workspace = sum_squares_workspace};

// --- adamw
static void adamw_chunk(const instruction *ins, int64_t first, int64_t n) {
    const tensor *p = ins->node->in[0];
    if (!isfinite(*(const double *)ins->in[4])) {
        memset(output_at(ins, 3, first), 0, (size_t)(n * dtype_bytes(p->dt)));
        return;
    }
    const adamw_args args = adamw_args_of(ins);
    ins->kernels->adamw(p->dt, n, output_at(ins, 0, first), output_at(ins, 1, first),
            output_at(ins, 2, first), output_at(ins, 3, first), &args,
            ins->node->n_in > 6 ? (uint16_t *)(void *)output_at(ins, 4, first) : NULL);
}

const cpu_op cpu_op_adamw = {.elements = adamw_chunk};

// --- accumulation groups
static void put_aside_chunk(const instruction *ins, int64_t first, int64_t n) {
    const tensor *g = ins->node->in[0];
    const size_t bytes = (size_t)(n * dtype_bytes(g->dt));
    memcpy(output_at(ins, 1, first), input_at(ins, 0, first), bytes);
    memset(output_at(ins, 0, first), 0, bytes);
}

const cpu_op cpu_op_put_aside = {.elements = put_aside_chunk};

static void take_back_chunk(const instruction *ins, int64_t first, int64_t n) {
    const tensor *g = ins->node->in[0];
    ins->kernels->add(g->dt, n, input_at(ins, 1, first), input_at(ins, 0, first),
            output_at(ins, 0, first));
    memset(output_at(ins, 1, first), 0, (size_t)(n * dtype_bytes(g->dt)));
}

const cpu_op cpu_op_take_back = {.elements = take_back_chunk};

// An alias; nodes run in order.
const cpu_op cpu_op_barrier = {.run = NULL};

// --- to_host, from_host: this memory is the host's
static void copy_chunk(const instruction *ins, int64_t first, int64_t n) {
    memcpy(output_at(ins, 0, first), input_at(ins, 0, first),
            (size_t)(n * dtype_bytes(ins->node->in[0]->dt)));
}

const cpu_op cpu_op_to_host = {.elements = copy_chunk};
const cpu_op cpu_op_from_host = {.elements = copy_chunk};
