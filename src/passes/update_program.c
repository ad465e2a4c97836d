// The update program: norm of all gradients, then one AdamW node per weight.
#include "ir/op.h"
#include "passes/passes.h"

static tensor *state(graph *g, tensor_class cls, const char *prefix, const tensor *w, dtype dt) {
    return graph_state(g, cls, arena_printf(g->a, "%s%s", prefix, w->name), dt, w->n_dims, w->dim);
}

static tensor *sum_over(graph *g, tensor *x, mesh_axis axis, bool in_place) {
    const int ranks = g->mesh.size[axis];
    const op_attrs attrs = {.axis = (int)axis, .ranks = ranks, .in_place = in_place};
    return ranks == 1 ? x : graph_add(g, OP_all_reduce, 1, &x, &attrs)->out[0];
}

// What each tensor rank has of the gradient of a weight that all have is a partial sum over its
// tokens, if they share the tokens between products.
static tensor *gradient(graph *g, const tensor *w, bool split, bool sequence) {
    tensor *grad = state(g, TENSOR_GRAD, "grad.", w, dtype_acc(w->dt));
    grad = sum_over(g, grad, AXIS_DATA, true);
    return sequence && !split ? sum_over(g, grad, AXIS_TENSOR, true) : grad;
}

// Both uses of a tied table, each summed over the data ranks before (docs/adr/0011).
static tensor *both_uses(graph *g, const tensor *w, tensor *grad) {
    const int stages = g->mesh.size[AXIS_PIPELINE];
    const op_attrs ends = {.axis = AXIS_PIPELINE, .ranks = stages, .in_place = 1, .ends = 1};
    if (stages > 1) return graph_add(g, OP_all_reduce, 1, &grad, &ends)->out[0];
    const char *name = arena_printf(g->a, "grad.%s.second", w->name);
    tensor *second = graph_state(g, TENSOR_GRAD, name, dtype_acc(w->dt), w->n_dims, w->dim);
    tensor *in[] = {grad, sum_over(g, second, AXIS_DATA, true)};
    return graph_add(g, OP_take_back, 2, in, NULL)->out[0];
}

// Of tensors that are split over the tensor axis or alike on it, on all stages: each element counts
// once.
static tensor *global_squares(graph *g, tensor *const *t, int n, const update_opts *opts) {
    const int ranks = g->mesh.size[AXIS_TENSOR];
    tensor **in = ARENA_ARRAY(g->a, tensor *, n);
    int n_in = 0;
    op_attrs attrs = {.axes = 1 << AXIS_PIPELINE | 1 << AXIS_TENSOR};
    attrs.ranks = mesh_along(&g->mesh, attrs.axes);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            const bool alike = ranks > 1 && !opts->split[i];
            if (alike == pass || (opts->copy && opts->copy[i])) continue;
            in[n_in++] = t[i];
            attrs.n_alike += alike;
        }
    if (attrs.n_alike) attrs.copies = ranks;
    return graph_add(g, OP_sum_squares, n_in, in, &attrs)->out[0];
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
        grads[i] = gradient(g, weights[i], opts->split && opts->split[i], opts->sequence);
    for (int i = 0; i < n && opts->tied; i++)
        if (opts->tied[i]) grads[i] = both_uses(g, weights[i], grads[i]);
    tensor *norm2 = global_squares(g, grads, n, opts);
    graph_output(g, norm2, "grad_norm2");
    for (int i = 0; i < n; i++)
        updated[i] = update(g, weights[i], grads[i], norm2, hyper, opts);
    graph_output(g, global_squares(g, updated, n, opts), "param_norm2");
    g->stage = STAGE_DIFFERENTIATED;
    return g;
}
