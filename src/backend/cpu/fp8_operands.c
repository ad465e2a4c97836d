// Rounds the operands of products to fp8, into scratch, before they are multiplied.
#include "backend/cpu/fp8_operands.h"

#include "base/round.h"

// Scratch: the rounded operand, then the largest number of each chunk.
typedef struct operand {
    const instruction *ins;
    const fp8_format *to;
    const tensor *of;
    const char *x;
    char *rounded;
    double *largest; // of each chunk
    int scale;
} operand;

static int64_t n_chunks(const tensor *t) {
    return div_up(tensor_elements(t), CHUNK_ELEMENTS);
}

static int64_t rounded_bytes(const tensor *t) {
    return round_up(tensor_bytes(t), 64);
}

static int64_t operand_bytes(const tensor *t) {
    return rounded_bytes(t) + round_up(n_chunks(t) * (int64_t)sizeof(double), 64);
}

int64_t fp8_workspace(const node *n) {
    return operand_bytes(n->in[0]) + operand_bytes(n->in[1]);
}

static void measure_chunk(void *arg, int64_t c) {
    const operand *o = arg;
    const int64_t n = chunk_length(tensor_elements(o->of), CHUNK_ELEMENTS, c);
    o->largest[c] = o->ins->kernels->magnitude(o->of->dt, n,
            o->x + c * CHUNK_ELEMENTS * dtype_bytes(o->of->dt));
}

static void round_chunk(void *arg, int64_t c) {
    const operand *o = arg;
    const int64_t n = chunk_length(tensor_elements(o->of), CHUNK_ELEMENTS, c),
                  at = c * CHUNK_ELEMENTS * dtype_bytes(o->of->dt);
    o->ins->kernels->round_fp8(o->of->dt, o->to, n, o->scale, o->x + at, o->rounded + at);
}

static operand operand_of(const instruction *ins, int k, const fp8_format *to, char *scratch) {
    const tensor *of = ins->node->in[k];
    return (operand){.ins = ins,
            .to = to,
            .of = of,
            .x = ins->in[k],
            .rounded = scratch,
            .largest = (double *)(void *)(scratch + rounded_bytes(of))};
}

static double largest_here(operand *o) {
    double largest = 0;
    par_for(n_chunks(o->of), measure_chunk, o);
    for (int64_t c = 0; c < n_chunks(o->of); c++)
        if (!(o->largest[c] <= largest)) largest = o->largest[c];
    return largest;
}

static drv_status largest_of_ranks(const instruction *ins, double largest[2]) {
    for (int axis = 0; axis < N_AXES; axis++)
        if (ins->along[axis])
            DRV_TRY(comm_all_reduce(ins->along[axis], DT_F64, COMM_MAX, largest, 2, NULL));
    return DRV_OK;
}

void fp8_run(const instruction *ins, void (*product)(const instruction *ins)) {
    const node *n = ins->node;
    char *scratch = ins->workspace;
    const bool gradient = n->attrs.matmul.fp8 == FP8_GRADIENT;
    operand both[] = {operand_of(ins, 0, gradient ? &fp8_e5m2 : &fp8_e4m3, scratch),
            operand_of(ins, 1, &fp8_e4m3, scratch + operand_bytes(n->in[0]))};
    double largest[] = {largest_here(&both[0]), largest_here(&both[1])};
    if ((*ins->failed = largest_of_ranks(ins, largest)) != DRV_OK) return;
    for (int k = 0; k < 2; k++) {
        both[k].scale = fp8_scale_exponent(both[k].to, largest[k]);
        par_for(n_chunks(both[k].of), round_chunk, &both[k]);
    }
    void *in[3] = {both[0].rounded, both[1].rounded, n->n_in > 2 ? ins->in[2] : NULL};
    instruction rounded = *ins;
    rounded.in = in;
    rounded.workspace = scratch + fp8_workspace(n);
    rounded.workspace_bytes -= fp8_workspace(n);
    product(&rounded);
}
