// The arithmetic of the update's two ops (adamw, adamw_rounded) on each element in a step. Their
// inputs 4 and 5 are the squared norm of all gradients and `hyper` (ir/hyper.h).
#pragma once
#include <math.h>

#include "backend/cpu/cpu_op.h"
#include "ir/hyper.h"

static inline adamw_args adamw_args_of(const instruction *ins) {
    const op_attrs *attrs = &ins->node->attrs;
    const double norm2 = *(const double *)ins->in[4], *hyper = ins->in[5];
    adamw_args args = {.lr = hyper[HYPER_LR],
            .beta1 = attrs->beta1,
            .beta2 = attrs->beta2,
            .eps = attrs->eps,
            .weight_decay = attrs->weight_decay,
            .c1 = hyper[HYPER_C1],
            .c2 = hyper[HYPER_C2],
            .grad_scale = 1};
    if (hyper[HYPER_CLIP] > 0) args.grad_scale = fmin(1, hyper[HYPER_CLIP] / (sqrt(norm2) + 1e-6));
    return args;
}
