// The update program: norm of all gradients, then one AdamW node per weight.
#include "ir/op.h"
#include "passes/passes.h"

static tensor *state(graph *g, tensor_class cls, const char *prefix, const tensor *w, dtype dt) {
    return graph_state(g, cls, arena_printf(g->a, "%s%s", prefix, w->name), dt, w->n_dims, w->dim);
}

// The gradient of a weight, summed over the data axis.
static tensor *gradient(graph *g, const tensor *w, const mesh *layout) {
    tensor *grad = state(g, TENSOR_GRAD, "grad.", w, dtype_acc(w->dt));
    const int ranks = layout->size[AXIS_DATA];
    if (ranks == 1) return grad;
    const op_attrs attrs = {.axis = AXIS_DATA, .ranks = ranks, .in_place = 1};
    return graph_add(g, OP_all_reduce, 1, &grad, &attrs)->out[0];
}

// The new value of a weight's master.
static tensor *update(graph *g, const tensor *w, tensor *grad, tensor *norm2, tensor *hyper,
        const update_opts *opts) {
    const dtype acc = dtype_acc(w->dt);
    const bool copy = w->dt != acc; // the weight is a rounded copy of the master
    tensor *in[7] = {NULL, NULL, NULL, grad, norm2, hyper};
    in[0] = copy ? state(g, TENSOR_OPTIMIZER, "master.", w, acc)
                 : state(g, TENSOR_WEIGHT, "", w, acc);
    in[1] = state(g, TENSOR_OPTIMIZER, "adam_m.", w, acc);
    in[2] = state(g, TENSOR_OPTIMIZER, "adam_v.", w, acc);
    if (copy) in[6] = state(g, TENSOR_WEIGHT, "", w, w->dt);
    const op_attrs attrs = {.beta1 = opts->beta1,
            .beta2 = opts->beta2,
            .eps = opts->eps,
            .weight_decay = w->n_dims == 2 ? opts->weight_decay : 0};
    return graph_add(g, OP_adamw, copy ? 7 : 6, in, &attrs)->out[0];
}

graph *pass_update(arena *a, tensor *const *weights, int n, const update_opts *opts) {
    graph *g = graph_new(a, "update");
    g->phase = PHASE_UPDATE;
    g->mesh = opts->mesh;
    tensor *hyper = graph_state(g, TENSOR_INPUT, "hyper", DT_F64, 1, (int64_t[]){4});
    tensor **grads = ARENA_ARRAY(a, tensor *, n), **updated = ARENA_ARRAY(a, tensor *, n);
    for (int i = 0; i < n; i++)
        grads[i] = gradient(g, weights[i], &opts->mesh);
    tensor *norm2 = graph_add(g, OP_sum_squares, n, grads, NULL)->out[0];
    graph_output(g, norm2, "grad_norm2");
    for (int i = 0; i < n; i++)
        updated[i] = update(g, weights[i], grads[i], norm2, hyper, opts);
    graph_output(g, graph_add(g, OP_sum_squares, n, updated, NULL)->out[0], "param_norm2");
    g->stage = STAGE_DIFFERENTIATED;
    return g;
}
