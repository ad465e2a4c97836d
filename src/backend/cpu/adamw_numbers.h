// The numbers of a step that ops of the update compute with. Inputs 4 and 5 of adamw and
// adamw_rounded are the squared norm of all gradients and `hyper` (ir/hyper.h).
#pragma once
#include <math.h>

#include "backend/cpu/cpu_op.h"
#include "ir/hyper.h"

// Returns the factor of gradients that makes their norm at most the clip.
static inline double clip_scale(double norm2, const double *hyper) {
    return hyper[HYPER_CLIP] > 0 ? fmin(1, hyper[HYPER_CLIP] / (sqrt(norm2) + 1e-6)) : 1;
}

static inline adamw_args adamw_args_of(const instruction *ins) {
    const op_attrs *attrs = &ins->node->attrs;
    const double norm2 = *(const double *)ins->in[4], *hyper = ins->in[5];
    return (adamw_args){.lr = hyper[HYPER_LR],
            .beta1 = attrs->update.beta1,
            .beta2 = attrs->update.beta2,
            .eps = attrs->update.eps,
            .weight_decay = attrs->update.weight_decay,
            .c1 = hyper[HYPER_C1],
            .c2 = hyper[HYPER_C2],
            .grad_scale = clip_scale(norm2, hyper)};
}
