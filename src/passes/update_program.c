// Builds the update program: norm of all gradients, then AdamW's or Muon's nodes for each weight.
#include "ir/op.h"
#include "ir/program_inputs.h"
#include "ir/rounding.h"
#include "ir/weight_shard.h"
#include "passes/update_internal.h"

static tensor *state(graph *g, tensor_class cls, const char *prefix, const tensor *w, dtype dt) {
    return graph_state(g, cls, arena_printf(g->a, "%s%s", prefix, w->name), dt, w->n_dims, w->dim);
}

op_attrs update_along(const graph *g, mesh_axis axis) {
    return (op_attrs){.mesh.axis = (int)axis, .mesh.ranks = g->mesh.size[axis]};
}

// Returns the ranks that share the update of a weight: the data ranks, or, if groups of them hold
// whole weights, the ranks that hold the same shard.
static op_attrs among_owners(const graph *g, const update_opts *opts) {
    op_attrs attrs = update_along(g, AXIS_DATA);
    if (opts->weight_shards) attrs.mesh.ranks = mesh_groups(&g->mesh);
    attrs.mesh.across = opts->weight_shards;
    return attrs;
}

static bool has_groups(const graph *g, const update_opts *opts) {
    return opts->weight_shards && mesh_groups(&g->mesh) > 1;
}

// Returns whether this rank updates only a part of what it holds of a weight.
static bool updates_part(const graph *g, const update_opts *opts) {
    return opts->zero && (!opts->weight_shards || has_groups(g, opts));
}

static tensor *sum_over(graph *g, tensor *x, mesh_axis axis) {
    op_attrs attrs = update_along(g, axis);
    attrs.mesh.in_place = true;
    return attrs.mesh.ranks == 1 ? x : graph_add(g, OP_all_reduce, 1, &x, &attrs)->out[0];
}

// Sums a gradient over data and context ranks and over the reduction blocks of the row. If no two
// ranks have the same blocks, a rank's sums are complete and are added before communication.
static tensor *sum_over_update(graph *g, tensor *grad, const update_opts *opts) {
    op_attrs attrs = update_along(g, AXIS_DATA);
    attrs.mesh.summed = opts->summed;
    if (opts->summed && !opts->zero) return grad;
    const op_attrs here = {.sum.row_blocks = opts->row_blocks};
    const bool row_blocks = opts->row_blocks > 1, together = row_blocks && opts->data_ranks > 1;
    if (row_blocks && !together) grad = graph_add(g, OP_join_blocks, 1, &grad, &here)->out[0];
    if (together) {
        attrs.sum.row_blocks = opts->row_blocks;
        attrs.sum.data_ranks = opts->data_ranks;
    }
    if (opts->zero) return graph_add(g, OP_reduce_shard, 1, &grad, &attrs)->out[0];
    if (together) return graph_add(g, OP_join_blocks, 1, &grad, &attrs)->out[0];
    return sum_over(g, grad, AXIS_DATA);
}

// Tensor ranks that share tokens have already summed the gradients of replicated weights.
static tensor *gradient(graph *g, const tensor *w, const char *use, const update_opts *opts) {
    const char *name = arena_printf(g->a, "grad.%s%s", w->name, use);
    if (!opts->shards.ranks) return sum_over_update(g, pass_sum(g, name, w, opts->grads), opts);
    tensor *sum = pass_join_shards(g, pass_shards(g, name, w, &opts->shards), &opts->shards);
    if (!has_groups(g, opts)) return sum;
    op_attrs attrs = among_owners(g, opts);
    attrs.sum.row_blocks = (int)sum->dim[0];
    attrs.sum.data_ranks = attrs.mesh.ranks;
    return graph_add(g, OP_reduce_shard, 1, &sum, &attrs)->out[0];
}

// Adds the gradients of both uses of a tied table, summed over data ranks before (docs/adr/0011).
static tensor *both_uses(graph *g, const tensor *w, tensor *grad, const update_opts *opts) {
    op_attrs ends = update_along(g, AXIS_PIPELINE);
    ends.mesh.in_place = !opts->zero;
    ends.mesh.ends = 1;
    if (ends.mesh.ranks > 1) return graph_add(g, OP_all_reduce, 1, &grad, &ends)->out[0];
    tensor *in[] = {grad, gradient(g, w, ".second", opts)};
    return graph_add(g, opts->zero ? OP_add : OP_take_back, 2, in, NULL)->out[0];
}

// Sums the squares of all gradients on all stages; those replicated on tensor ranks come first.
static tensor *global_squares(graph *g, tensor *const *t, int n, const update_opts *opts) {
    const bool tensor_ranks = g->mesh.size[AXIS_TENSOR] > 1;
    tensor **in = ARENA_ARRAY(g->a, tensor *, n);
    int n_in = 0;
    op_attrs attrs = {0};
    if (g->mesh.size[AXIS_PIPELINE] > 1) attrs.mesh.axes |= 1 << AXIS_PIPELINE;
    if (tensor_ranks) attrs.mesh.axes |= 1 << AXIS_TENSOR;
    if (opts->zero) attrs.mesh.axes |= 1 << AXIS_DATA;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            const bool split = opts->split && opts->split[i];
            if (split != pass || (opts->copy && opts->copy[i])) continue;
            in[n_in++] = t[i];
            attrs.mesh.n_alike += tensor_ranks && !split;
        }
    return graph_add(g, OP_sum_squares, n_in, in, &attrs)->out[0];
}

// Makes optimizer state for a weight: its shard if data ranks share it.
tensor *update_state(graph *g, const char *prefix, const tensor *w, dtype dt,
        const update_opts *opts) {
    const int64_t length = shard_length(tensor_elements(w), g->mesh.size[AXIS_DATA]);
    if (!opts->zero) return state(g, TENSOR_OPTIMIZER, prefix, w, dt);
    return graph_state(g, TENSOR_OPTIMIZER, arena_printf(g->a, "%s%s", prefix, w->name), dt, 1,
            &length);
}

tensor *update_share(graph *g, tensor *w, const update_opts *opts) {
    const op_attrs attrs = update_along(g, AXIS_DATA);
    return opts->zero ? graph_add(g, OP_take_shard, 1, &w, &attrs)->out[0] : w;
}

// Makes the state of a weight: this rank's shard of it where weights are shards.
static tensor *weight_state(graph *g, const tensor *w, const update_opts *opts) {
    const int groups = mesh_groups(&g->mesh), ranks = g->mesh.size[AXIS_DATA] / groups;
    const int64_t length = weight_shard_length(tensor_elements(w), ranks, groups);
    return opts->weight_shards ? graph_state(g, TENSOR_WEIGHT, w->name, w->dt, 1, &length)
                               : state(g, TENSOR_WEIGHT, "", w, w->dt);
}

updated_weight update_weight(graph *g, const tensor *w, const update_opts *opts) {
    const dtype acc = dtype_acc(w->dt);
    tensor *weight = weight_state(g, w, opts), *share = weight;
    const op_attrs among = among_owners(g, opts);
    if (updates_part(g, opts)) share = graph_add(g, OP_take_shard, 1, &weight, &among)->out[0];
    if (w->dt == acc || opts->no_masters) return (updated_weight){weight, share, NULL};
    return (updated_weight){weight, update_state(g, "master.", w, acc, opts), share};
}

tensor *update_end(graph *g, const updated_weight *it, const node *n, const update_opts *opts) {
    op_attrs among = among_owners(g, opts);
    among.mesh.async = opts->gathers_async;
    tensor *gathered[] = {it->weight, it->copy ? n->out[n->n_out - 1] : n->out[0]};
    if (updates_part(g, opts)) graph_add(g, OP_gather_shards, 2, gathered, &among);
    return n->out[0];
}

tensor *pass_extent(graph *g, const char *weight) {
    const char *name = arena_printf(g->a, "extent.%s", weight);
    tensor *there = graph_find(g, name);
    return there ? there
                 : graph_state(g, TENSOR_OPTIMIZER, name, DT_I32, 1, (int64_t[]){N_EXTENT_WORDS});
}

// Makes the node that updates p; it rounds stochastically if any of its state is bf16. copy: the
// weight, a rounded copy of p; NULL: p is the weight.
static const node *add_update(graph *g, const tensor *w, tensor *state[4], tensor *norm2,
        tensor *hyper, tensor *copy, const update_opts *opts) {
    bool rounds = false;
    tensor *in[8] = {state[0], state[1], state[2], state[3], norm2, hyper};
    int n_in = 6;
    for (int i = 0; i < 4; i++)
        rounds |= state[i]->dt == DT_BF16;
    if (rounds) in[n_in++] = pass_extent(g, w->name);
    if (copy) in[n_in++] = copy;
    const op_attrs attrs = {.update.beta1 = opts->beta1,
            .update.beta2 = opts->beta2,
            .update.eps = opts->eps,
            .update.weight_decay = w->n_dims == 2 || opts->decay_norms ? opts->weight_decay : 0};
    return graph_add(g, rounds ? OP_adamw_rounded : OP_adamw, n_in, in, &attrs);
}

// Returns the new value of a weight's master, or of its shard, by AdamW.
static tensor *update(graph *g, const tensor *w, tensor *grad, tensor *norm2, tensor *hyper,
        const update_opts *opts) {
    const dtype moments = pass_kept_type(opts->moments, w->dt);
    const updated_weight it = update_weight(g, w, opts);
    tensor *kept[] = {it.p, update_state(g, "adam_m.", w, moments, opts),
            update_state(g, "adam_v.", w, moments, opts), grad};
    return update_end(g, &it, add_update(g, w, kept, norm2, hyper, it.copy, opts), opts);
}

// Outputs a copy of a gradient, since the update clears the gradient itself.
static void keep_gradient(graph *g, const tensor *w, tensor *grad) {
    graph_output(g, graph_add(g, OP_take_shard, 1, &grad, NULL)->out[0],
            arena_printf(g->a, "gradient.%s", w->name));
}

static tensor *hyper_input(graph *g) {
    const program_input_row *row = &program_inputs[INPUT_HYPER];
    return graph_state(g, TENSOR_INPUT, row->name, row->dt, 1, (int64_t[]){row->alone});
}

static void update_all(graph *g, tensor *const *weights, tensor *const *grads, int n, tensor *norm2,
        tensor *hyper, const update_opts *opts, tensor **updated) {
    for (int i = 0; i < n; i++)
        if (!update_by_muon(opts, i))
            updated[i] = update(g, weights[i], grads[i], norm2, hyper, opts);
    if (opts->muon) update_muon(g, weights, grads, n, norm2, hyper, opts, updated);
}

graph *pass_update(arena *a, tensor *const *weights, int n, const update_opts *opts) {
    graph *g = graph_new(a, "update");
    g->phase = PHASE_UPDATE;
    g->mesh = opts->mesh;
    g->row_blocks = opts->row_blocks;
    tensor *hyper = hyper_input(g);
    tensor **grads = ARENA_ARRAY(a, tensor *, n), **updated = ARENA_ARRAY(a, tensor *, n);
    for (int i = 0; i < n; i++)
        grads[i] = gradient(g, weights[i], "", opts);
    for (int i = 0; i < n && opts->tied; i++)
        if (opts->tied[i]) grads[i] = both_uses(g, weights[i], grads[i], opts);
    for (int i = 0; i < n && opts->keep_gradients; i++)
        keep_gradient(g, weights[i], grads[i]);
    tensor *norm2 = global_squares(g, grads, n, opts);
    graph_output(g, norm2, "grad_norm2");
    update_all(g, weights, grads, n, norm2, hyper, opts, updated);
    graph_output(g, global_squares(g, updated, n, opts), "param_norm2");
    g->stage = STAGE_DIFFERENTIATED;
    return g;
}
