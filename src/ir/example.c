// Inputs of examples and their values.
#include "ir/example.h"

#include "base/rng.h"

static tensor *input(example *e, example_role role, tensor *t, double low, double high,
        const int32_t *values) {
    DRV_ASSERT(e->n_inputs < MAX_EXAMPLE_INPUTS, "example with more inputs");
    e->input[e->n_inputs++] =
            (example_input){.t = t, .role = role, .low = low, .high = high, .values = values};
    return t;
}

static tensor *state(example *e, tensor_class cls, const char *name, dtype dt, int64_t rows,
        int64_t cols) {
    return graph_state(e->g, cls, name, dt, cols ? 2 : 1, (int64_t[]){rows, cols});
}

tensor *example_activation(example *e, const char *name, int64_t rows, int64_t cols) {
    tensor *t = state(e, TENSOR_INPUT, name, e->dt, rows, cols);
    return input(e, EXAMPLE_ACTIVATION, t, -1, 1, NULL);
}

tensor *example_losses(example *e, const char *name, int64_t n) {
    return input(e, EXAMPLE_ACTIVATION, state(e, TENSOR_INPUT, name, DT_F64, n, 0), 0, 2, NULL);
}

tensor *example_given(example *e, const char *name, int64_t rows, int64_t cols) {
    return example_state(e, TENSOR_INPUT, name, e->dt, rows, cols, -1, 1);
}

tensor *example_weight(example *e, const char *name, dtype dt, int64_t rows, int64_t cols) {
    tensor *t = state(e, TENSOR_WEIGHT, name, dt, rows, cols);
    return input(e, EXAMPLE_WEIGHT, t, -1, 1, NULL);
}

tensor *example_state(example *e, tensor_class cls, const char *name, dtype dt, int64_t rows,
        int64_t cols, double low, double high) {
    return input(e, EXAMPLE_GIVEN, state(e, cls, name, dt, rows, cols), low, high, NULL);
}

tensor *example_accumulator(example *e, const char *name, int n_dims, const int64_t *dim) {
    tensor *t = graph_state(e->g, TENSOR_GRAD, name, dtype_acc(e->dt), n_dims, dim);
    return input(e, EXAMPLE_GIVEN, t, -1, 1, NULL);
}

tensor *example_cache(example *e, const char *name, const int64_t dim[3]) {
    tensor *t = graph_state(e->g, TENSOR_CACHE, name, e->dt, 3, dim);
    return input(e, EXAMPLE_GIVEN, t, -1, 1, NULL);
}

tensor *example_integers(example *e, const char *name, int64_t n, const int32_t *values) {
    tensor *t = graph_state(e->g, TENSOR_INPUT, name, DT_I32, 1, &n);
    return input(e, EXAMPLE_GIVEN, t, 0, 0, values);
}

double example_value(const example_input *input, int64_t k) {
    const rng_key key = {hash_name(input->t->name), RNG_TEST, 0};
    const double x = input->low + (input->high - input->low) * rng_uniform(&key, (uint64_t)k);
    return (double)bf16_to_f32(f32_to_bf16((float)x));
}
