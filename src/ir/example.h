// Small instances of an op, kept in its row: tests run them on every back end and level, and
// differentiate them. They also say what the inputs are, so that tests know no tensor by name.
#pragma once
#include "ir/graph.h"

typedef enum example_role {
    EXAMPLE_GIVEN,      // not differentiated: statistics, moments, positions
    EXAMPLE_ACTIVATION, // differentiated: its gradient is a value
    EXAMPLE_WEIGHT      // differentiated: its gradient is added to an accumulator
} example_role;

typedef struct example_input {
    const tensor *t;
    example_role role;
    double low, high;      // of real numbers: uniform between them
    const int32_t *values; // of integers
} example_input;

enum { MAX_EXAMPLE_INPUTS = 8 };

typedef struct example {
    graph *g;
    dtype dt; // of activations
    example_input input[MAX_EXAMPLE_INPUTS];
    int n_inputs;
} example;

// Appends nodes to e->g, the last one of the op in question.
typedef void (*example_fn)(example *e);

// Inputs of type e->dt in [-1, 1). cols 0: a vector.
tensor *example_activation(example *e, const char *name, int64_t rows, int64_t cols);
// Losses of tokens, differentiated: f64[n] whatever e->dt, in [0, 2).
tensor *example_losses(example *e, const char *name, int64_t n);
tensor *example_given(example *e, const char *name, int64_t rows, int64_t cols);
// Returns a weight of any type in [-1, 1).
tensor *example_weight(example *e, const char *name, dtype dt, int64_t rows, int64_t cols);
// State of any class, type and range.
tensor *example_state(example *e, tensor_class cls, const char *name, dtype dt, int64_t rows,
        int64_t cols, double low, double high);
// Returns an accumulator in [-1, 1), with any dims.
tensor *example_accumulator(example *e, const char *name, int n_dims, const int64_t *dim);
// State of three dimensions in [-1, 1).
tensor *example_cache(example *e, const char *name, const int64_t dim[3]);
// i32[n]; `values` must live as long as the example.
tensor *example_integers(example *e, const char *name, int64_t n, const int32_t *values);

// Element k of a real input: a function of its name and k, and a number that bf16 holds, so that an
// example has the same inputs in every type.
double example_value(const example_input *input, int64_t k);
