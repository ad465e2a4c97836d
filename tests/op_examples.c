// Makes the examples of the ops (ir/example.h), and the values of their inputs.
#include "harness.h"

static dtype type_of(const example *e, example_type type) {
    switch (type) {
    case EXAMPLE_OWN:
        return e->dt;
    case EXAMPLE_KEPT:
        return e->dt == DT_F64 ? DT_F64 : DT_BF16;
    case EXAMPLE_SUMS:
        return dtype_acc(e->dt);
    case EXAMPLE_BF16:
        return DT_BF16;
    case EXAMPLE_F64:
        return DT_F64;
    default:
        return DT_I32;
    }
}

tensor *example_add(example *e, const example_input *in) {
    DRV_ASSERT(e->n_inputs < MAX_EXAMPLE_INPUTS, "example with more inputs");
    example_input *added = &e->input[e->n_inputs++];
    int n_dims = 0;
    *added = *in;
    while (n_dims < MAX_DIMS && in->dim[n_dims] > 0)
        n_dims++;
    return added->t = graph_state(e->g, in->cls, in->name, type_of(e, in->type), n_dims, in->dim);
}

static bool is_case(const example_case *made) {
    return made->make || made->in[0].name;
}

int n_examples(op_kind op) {
    int n = 0;
    while (is_case(&op_rows[op]->examples[n]))
        n++;
    return n;
}

void example_make(example *e, op_kind op, int which) {
    const example_case *made = &op_rows[op]->examples[which];
    tensor *in[MAX_EXAMPLE_INPUTS];
    int n_in = 0;
    if (made->row_blocks) e->g->row_blocks = made->row_blocks;
    if (made->partial_sums) e->g->partial_sums = made->partial_sums;
    for (; n_in < MAX_EXAMPLE_INPUTS && made->in[n_in].name; n_in++)
        in[n_in] = example_add(e, &made->in[n_in]);
    if (made->make)
        made->make(e, n_in, in, made->attrs);
    else
        graph_add(e->g, op, n_in, in, &made->attrs);
}

double example_value(const example_input *input, int64_t k) {
    const rng_key key = {hash_name(input->t->name), RNG_TEST, 0};
    const double x = input->low + (input->high - input->low) * rng_uniform(&key, (uint64_t)k);
    return (double)bf16_to_f32(f32_to_bf16((float)x));
}
