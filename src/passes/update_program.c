#include <string.h>

#include "ir/op.h"
#include "passes/passes.h"

static tensor *state(graph *g, tensor_class cls, const char *prefix, const tensor *w, dtype dt) {
    return graph_state(g, cls, arena_printf(g->a, "%s%s", prefix, w->name), dt, w->n_dims, w->dim);
}

graph *pass_update(arena *a, tensor *const *weights, int n, const update_opts *o) {
    graph *g = graph_new(a, "update");
    g->phase = PHASE_UPDATE;
    tensor *hyper = graph_state(g, TENSOR_INPUT, "hyper", DT_F64, 1, (int64_t[]){4});
    tensor **grads = ARENA_ARRAY(a, tensor *, n), **updated = ARENA_ARRAY(a, tensor *, n);
    for (int i = 0; i < n; i++) {
        grads[i] = state(g, TENSOR_GRAD, "grad.", weights[i], dtype_acc(weights[i]->dt));
        if (o->mesh.size[AXIS_DATA] > 1)
            grads[i] = graph_add(g, OP_all_reduce, 1, &grads[i],
                    &(op_attrs){.axis = AXIS_DATA, .ranks = o->mesh.size[AXIS_DATA]})
                               ->out[0];
    }
    node *norm = graph_add(g, OP_sum_squares, n, grads, NULL);
    graph_output(norm->out[0], "grad_norm2");
    for (int i = 0; i < n; i++) {
        const tensor *w = weights[i];
        dtype acc = dtype_acc(w->dt);
        bool copy = w->dt != acc; // the weight is a rounded copy of the master
        tensor *in[7];
        in[0] = copy ? state(g, TENSOR_OPTIMIZER, "master.", w, acc)
                     : state(g, TENSOR_WEIGHT, "", w, acc);
        in[1] = state(g, TENSOR_OPTIMIZER, "adam_m.", w, acc);
        in[2] = state(g, TENSOR_OPTIMIZER, "adam_v.", w, acc);
        in[3] = grads[i];
        in[4] = norm->out[0];
        in[5] = hyper;
        if (copy) in[6] = state(g, TENSOR_WEIGHT, "", w, w->dt);
        op_attrs attrs = {.beta1 = o->beta1,
                .beta2 = o->beta2,
                .eps = o->eps,
                .weight_decay = w->n_dims == 2 ? o->weight_decay : 0};
        updated[i] = graph_add(g, OP_adamw, copy ? 7 : 6, in, &attrs)->out[0];
    }
    graph_output(graph_add(g, OP_sum_squares, n, updated, NULL)->out[0], "param_norm2");
    g->stage = STAGE_DIFFERENTIATED;
    return g;
}
