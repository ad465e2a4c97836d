// The numbers of a step that the host passes to the update program: the input `hyper`,
// f64[N_HYPER].
#pragma once

enum {
    HYPER_LR,
    HYPER_C1, // 1 - beta1^t, 1 - beta2^t
    HYPER_C2,
    HYPER_CLIP,   // norm to clip at; 0: never
    HYPER_UPDATE, // t: updates so far with this one, the step of random bits
    N_HYPER
};
