// Sums of gradients in bf16 (docs/adr/0019): a sum takes what a micro-batch adds in by stochastic
// rounding.
#include "ir/op.h"
#include "passes/accumulators.h"
#include "passes/passes.h"

typedef struct rounding_input {
    const char *name;
    int n_slots;
    tensor *number; // made when it is first needed
} rounding_input;

static node *add_rounded(graph *g, const accumulator *of, void *ctx) {
    rounding_input *input = ctx;
    if (!input->number)
        input->number = graph_state(g, TENSOR_INPUT, input->name, DT_I32, 1, (int64_t[]){2});
    input->number->n_slots = input->n_slots;
    of->sum->dt = DT_BF16;
    tensor *in[] = {of->sum, of->added, pass_place(g, of->weight->name), input->number};
    return graph_make(g, OP_add_rounded, 4, in, NULL);
}

void pass_round_gradients(graph *g, const char *number, int n_slots) {
    accumulators_replace(g, add_rounded, &(rounding_input){number, n_slots, NULL});
}
