// Operands of products, rounded to fp8 into scratch before they are multiplied.
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
    return round_up(tensor_elements(t), CHUNK_ELEMENTS) / CHUNK_ELEMENTS;
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

static void measure_chunk(void *arg, int64_t c, int thread) {
    (void)thread;
    const operand *o = arg;
    const int64_t n = chunk_length(tensor_elements(o->of), CHUNK_ELEMENTS, c);
    o->largest[c] = o->ins->kernels->magnitude(o->of->dt, n,
            o->x + c * CHUNK_ELEMENTS * dtype_bytes(o->of->dt));
}

static void round_chunk(void *arg, int64_t c, int thread) {
    (void)thread;
    const operand *o = arg;
    const int64_t n = chunk_length(tensor_elements(o->of), CHUNK_ELEMENTS, c),
                  at = c * CHUNK_ELEMENTS * dtype_bytes(o->of->dt);
    o->ins->kernels->round_fp8(o->of->dt, o->to, n, o->scale, o->x + at, o->rounded + at);
}

static void *round_operand(const instruction *ins, int k, const fp8_format *to, char *scratch) {
    operand o = {.ins = ins, .to = to, .of = ins->node->in[k], .x = ins->in[k], .rounded = scratch};
    o.largest = (double *)(void *)(scratch + rounded_bytes(o.of));
    par_for(n_chunks(o.of), measure_chunk, &o);
    double largest = 0;
    for (int64_t c = 0; c < n_chunks(o.of); c++)
        if (!(o.largest[c] <= largest)) largest = o.largest[c];
    o.scale = fp8_scale_exponent(to, largest);
    par_for(n_chunks(o.of), round_chunk, &o);
    return o.rounded;
}

void fp8_run(const instruction *ins, void (*product)(const instruction *ins)) {
    const node *n = ins->node;
    char *scratch = ins->workspace;
    const bool gradient = n->attrs.matmul.fp8 == FP8_GRADIENT;
    void *in[3] = {round_operand(ins, 0, gradient ? &fp8_e5m2 : &fp8_e4m3, scratch),
            round_operand(ins, 1, &fp8_e4m3, scratch + operand_bytes(n->in[0])),
            n->n_in > 2 ? ins->in[2] : NULL};
    instruction rounded = *ins;
    rounded.in = in;
    rounded.workspace = scratch + fp8_workspace(n);
    rounded.workspace_bytes -= fp8_workspace(n);
    product(&rounded);
}
