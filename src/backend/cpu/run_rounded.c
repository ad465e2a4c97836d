// Updates state kept in bf16 (ir/ops/rounded.c). Chunks of a weight are divided where the indices
// of its elements in the model are not consecutive: at the beginning of a part, or of each row.
#include <math.h>
#include <string.h>

#include "backend/cpu/adamw_numbers.h"
#include "ir/rounding.h"

// --- adamw_rounded
static rounding keys_at(const extent_run *run, int word, uint32_t step) {
    rounding_keys keys;
    memcpy(keys.key, run->part + word, sizeof keys.key);
    return rounding_of(&keys, step, run->first);
}

static void update_chunk(const instruction *ins, int64_t first, int64_t n) {
    const bool copies = ins->node->n_in > 7;
    const uint32_t *extent = ins->in[6];
    if (!isfinite(*(const double *)ins->in[4])) {
        memset(output_at(ins, 3, first), 0, (size_t)(n * dtype_bytes(ins->node->in[3]->dt)));
        return;
    }
    tensor *const *in = ins->node->in;
    const adamw_args args = adamw_args_of(ins);
    const adamw_types types = {in[0]->dt, in[1]->dt, in[3]->dt};
    const uint32_t update = (uint32_t)((const double *)ins->in[5])[HYPER_UPDATE];
    for (int64_t at = first; at < first + n;) {
        const extent_run run = extent_run_at(extent, at + extent[EXTENT_FIRST], first + n - at);
        const rounding by = keys_at(&run, PART_UPDATE, update);
        ins->kernels->adamw_rounded(&types, run.n, output_at(ins, 0, at), output_at(ins, 1, at),
                output_at(ins, 2, at), output_at(ins, 3, at), &args, &by,
                copies ? (uint16_t *)(void *)output_at(ins, 4, at) : NULL);
        at += run.n;
    }
}

const cpu_op cpu_op_adamw_rounded = {.elements = update_chunk};

// --- sums of gradients
static void zeros_chunk(const instruction *ins, int64_t first, int64_t n) {
    const tensor *sum = ins->node->out[0];
    memset(output_at(ins, 0, first), 0, (size_t)(n * dtype_bytes(sum->dt)));
}

const cpu_op cpu_op_zeros = {.elements = zeros_chunk};

static void add_rounded_elements(const instruction *ins, int64_t first, int64_t n) {
    const uint32_t *extent = ins->in[2], *number = ins->in[3];
    const tensor *sum = ins->node->in[0];
    for (int64_t at = first; at < first + n;) {
        const extent_run run = extent_run_at(extent, at, first + n - at);
        const rounding by = keys_at(&run, PART_GRADIENT, rounding_step(number[0], number[1]));
        ins->kernels->add_rounded(sum->dt, run.n, input_at(ins, 1, at), output_at(ins, 0, at), &by);
        at += run.n;
    }
}

const cpu_op cpu_op_add_rounded = {.elements = add_rounded_elements};
