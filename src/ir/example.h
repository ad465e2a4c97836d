// Small instances of an op, kept in its row: tests run them on every back end and level, and
// differentiate them. They also say what the inputs are, so that tests know no tensor by name.
#pragma once
#include "ir/graph.h"

typedef enum example_role {
    EXAMPLE_GIVEN,      // not differentiated: statistics, moments, positions
    EXAMPLE_ACTIVATION, // differentiated: its gradient is a value
    EXAMPLE_WEIGHT      // differentiated: its gradient is added to an accumulator
} example_role;

// The type of an input. Tests make an example for several types of activations. OWN: the type of
// the activations; SUMS: its accumulation type; KEPT: bf16 where its sums can be stored in bf16.
typedef enum example_type {
    EXAMPLE_OWN,
    EXAMPLE_SUMS,
    EXAMPLE_KEPT,
    EXAMPLE_BF16,
    EXAMPLE_F64,
    EXAMPLE_I32
} example_type;

typedef struct example_input {
    const char *name;
    example_role role;
    tensor_class cls;
    example_type type;
    int64_t dim[MAX_DIMS]; // 0 after the last one
    double low, high;      // real inputs are uniform between these
    const int32_t *values; // of an integer input
    tensor *t;             // NULL until the example is made
} example_input;

enum { MAX_EXAMPLE_INPUTS = 8 };

typedef struct example {
    graph *g;
    dtype dt; // of activations
    example_input input[MAX_EXAMPLE_INPUTS];
    int n_inputs;
} example;

// An example in the row of an op.
typedef struct example_case {
    // Appends nodes to e->g that read the inputs in their order; the last node is of the op. NULL:
    // the example is a single node with these inputs and attributes.
    void (*make)(example *e, int n_in, tensor *const *in, op_attrs attrs);
    example_input in[MAX_EXAMPLE_INPUTS]; // ends before one without a name
    op_attrs attrs;
    int row_blocks, partial_sums; // of the graph; 0: one
} example_case;

// Inputs of examples. IN_GIVEN("dy", 5, 3) has the type of activations; values are in [-1, 1)
// unless the macro takes a range. IN_VECTOR: a weight in the accumulation type. IN_LOSSES: losses
// of tokens, differentiated, f64.
#define IN_STATE(class, kind, from, to, text, ...)                                                 \
    {                                                                                              \
        .name = (text), .cls = (class), .type = (kind), .low = (from), .high = (to), .dim = {      \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define IN_DIFFERENTIATED(as, class, kind, from, to, text, ...)                                    \
    {                                                                                              \
        .name = (text), .role = (as), .cls = (class), .type = (kind), .low = (from), .high = (to), \
        .dim = {                                                                                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define IN_GIVEN(...) IN_STATE(TENSOR_INPUT, EXAMPLE_OWN, -1, 1, __VA_ARGS__)
#define IN_SUMS(...)  IN_STATE(TENSOR_GRAD, EXAMPLE_SUMS, -1, 1, __VA_ARGS__)
#define IN_ACTIVATION(...)                                                                         \
    IN_DIFFERENTIATED(EXAMPLE_ACTIVATION, TENSOR_INPUT, EXAMPLE_OWN, -1, 1, __VA_ARGS__)
#define IN_WEIGHT(...)                                                                             \
    IN_DIFFERENTIATED(EXAMPLE_WEIGHT, TENSOR_WEIGHT, EXAMPLE_OWN, -1, 1, __VA_ARGS__)
#define IN_VECTOR(...)                                                                             \
    IN_DIFFERENTIATED(EXAMPLE_WEIGHT, TENSOR_WEIGHT, EXAMPLE_SUMS, -1, 1, __VA_ARGS__)
#define IN_LOSSES(...)                                                                             \
    IN_DIFFERENTIATED(EXAMPLE_ACTIVATION, TENSOR_INPUT, EXAMPLE_F64, 0, 2, __VA_ARGS__)
// i32[n]; the values must live as long as the example.
#define IN_INTEGERS(text, n, its)                                                                  \
    { .name = (text), .cls = TENSOR_INPUT, .type = EXAMPLE_I32, .dim = {(n)}, .values = (its) }
