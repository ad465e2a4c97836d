// Keeps sums of gradients in bf16 (docs/adr/0019): adds the gradient of a micro-batch with
// stochastic rounding.
#include "passes/accumulators.h"
#include "passes/passes.h"

static node *add_rounded(graph *g, const accumulator *of, void *ctx) {
    of->sum->dt = DT_BF16;
    tensor *in[] = {of->sum, of->added, pass_extent(g, of->weight->name), slotted_input_of(g, ctx)};
    return graph_make(g, OP_add_rounded, 4, in, NULL);
}

void pass_round_gradients(graph *g, int chunk, int n_slots) {
    accumulators_replace(g, add_rounded, &(slotted_input){INPUT_NUMBER, chunk, n_slots});
}
