// The numbers of a step that the host passes to the update program: the input `hyper`,
// f64[N_HYPER].
#pragma once

enum {
    HYPER_LR,
    HYPER_C1, // 1 - beta1^t, 1 - beta2^t
    HYPER_C2,
    HYPER_CLIP,   // norm to clip at; 0: never
    HYPER_UPDATE, // t: number of updates, this one included; the step of random bits
    N_HYPER
};

// Inputs of the examples (ir/example.h) of ops that update a weight: the sum of squares of the
// gradient, the numbers of the step, the weight in bf16.
#define IN_NORM2 IN_STATE(TENSOR_INPUT, EXAMPLE_F64, 1, 4, "norm2", 1)
#define IN_HYPER IN_STATE(TENSOR_INPUT, EXAMPLE_F64, 0.1, 0.5, "hyper", N_HYPER)
#define IN_COPY  IN_STATE(TENSOR_WEIGHT, EXAMPLE_BF16, -1, 1, "w", 3, 17)
