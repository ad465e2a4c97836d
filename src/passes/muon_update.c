// The Muon update (ir/ops/muon.c). Data ranks that share the optimizer each have a shard of the
// momentum, but a matrix is orthogonalised as a whole: they send the updated momentum to the
// matrix's owner, which returns the result. Owners are assigned in groups of matrices, so that
// ranks compute at the same time and only one group is gathered at a time.
#include "passes/update_internal.h"

// A matrix with a smaller norm counts as 0, as in torch.optim.Muon.
#define MUON_EPS 1e-7

// Weights of a group for each rank: those of a layer, so that each rank gets one of each shape.
enum { GROUP_WEIGHTS = 4 };

typedef struct muon_step { // the update of one weight
    const muon_weight *by;
    const tensor *weight; // the whole weight
    updated_weight it;
    int index, owner; // index among all weights; data rank that owns the weight
    double cost;      // FLOPs of its matrices
    tensor *u, *o;    // momentum, a shard until it is gathered; u orthogonalised
} muon_step;

typedef struct muon_pass {
    graph *g;
    const update_opts *opts;
    tensor *norm2, *hyper;
    double *load; // FLOPs of each data rank
} muon_pass;

static bool has_owners(const muon_pass *pass) {
    return pass->opts->muon_owners;
}

static op_attrs matrices_of(const muon_pass *pass, const tensor *w, const muon_weight *by) {
    op_attrs attrs = update_along(pass->g, AXIS_TENSOR);
    attrs.mesh.dim = by->by_columns;
    attrs.update.ns_steps = pass->opts->ns_steps;
    attrs.update.rows = (int)w->dim[0];
    attrs.update.columns = (int)w->dim[1];
    attrs.update.second_row = by->second_row;
    attrs.update.third_row = by->third_row;
    attrs.update.eps = MUON_EPS;
    attrs.update.beta2 = pass->opts->normuon_beta2;
    return attrs;
}

static op_attrs owned(const muon_pass *pass, const muon_step *step) {
    op_attrs attrs = update_along(pass->g, AXIS_DATA);
    attrs.mesh.owner = step->owner;
    attrs.mesh.owns = step->owner == pass->opts->place;
    return attrs;
}

static tensor *gather(graph *g, tensor *x, mesh_axis axis) {
    const op_attrs attrs = update_along(g, axis);
    return attrs.mesh.ranks == 1 ? x : graph_add(g, OP_all_gather, 1, &x, &attrs)->out[0];
}

// Adds the node that updates the momentum of a weight and sends the result to the matrix's owner.
static void begin(const muon_pass *pass, const tensor *w, tensor *grad, muon_step *step) {
    graph *g = pass->g;
    step->it = update_weight(g, w, pass->opts);
    tensor *in[] = {update_state(g, "momentum.", w, dtype_acc(w->dt), pass->opts), grad,
            pass->norm2, pass->hyper};
    const op_attrs attrs = {.update.to = w->dt, .update.beta1 = pass->opts->muon_momentum},
                   to = owned(pass, step);
    step->u = graph_add(g, OP_momentum, 4, in, &attrs)->out[2];
    if (has_owners(pass))
        step->u = graph_add(g, OP_to_owner, 1, &step->u, &to)->out[0];
    else if (pass->opts->zero)
        step->u = gather(g, step->u, AXIS_DATA);
}

// Makes state with a number for each row of all tensor ranks, on the owner of the weight.
static tensor *row_squares(graph *g, const tensor *w, const op_attrs *attrs) {
    const int64_t rows = w->dim[0] * (attrs->mesh.dim == 0 ? attrs->mesh.ranks : 1);
    return graph_state(g, TENSOR_OPTIMIZER, arena_printf(g->a, "row_squares.%s", w->name),
            dtype_acc(w->dt), 1, &rows);
}

static void orthogonalise(const muon_pass *pass, muon_step *step) {
    const op_attrs attrs = matrices_of(pass, step->weight, step->by);
    step->o = step->u; // only the owner's value is read
    if (has_owners(pass) && step->owner != pass->opts->place) return;
    tensor *in[3] = {gather(pass->g, step->u, AXIS_TENSOR)};
    if (attrs.update.beta2 > 0) {
        in[1] = row_squares(pass->g, step->weight, &attrs);
        in[2] = pass->norm2;
    }
    step->o =
            graph_add(pass->g, OP_orthogonalise, attrs.update.beta2 > 0 ? 3 : 1, in, &attrs)->out[0];
}

static tensor *end(const muon_pass *pass, const muon_step *step) {
    graph *g = pass->g;
    op_attrs from = owned(pass, step);
    from.whole = whole_of(step->weight, dtype_acc(step->weight->dt));
    tensor *o = has_owners(pass) ? graph_add(g, OP_from_owner, 1, &step->o, &from)->out[0]
                                 : update_share(g, step->o, pass->opts);
    tensor *in[] = {step->it.p, o, pass->norm2, pass->hyper, step->it.copy};
    const node *n = graph_add(g, OP_descend, step->it.copy ? 5 : 4, in,
            &(op_attrs){.update.weight_decay = pass->opts->weight_decay});
    return update_end(g, &step->it, n, pass->opts);
}

static double cost(const muon_pass *pass, const tensor *w, const muon_weight *by) {
    const node n = {.n_in = 1, .attrs = matrices_of(pass, w, by)};
    return op_rows[OP_orthogonalise]->flops(&n);
}

// Assigns the most expensive matrix first, to the rank with the least work so far in all groups.
static void choose_owners(const muon_pass *pass, muon_step *steps, int n) {
    for (int left = n; left > 0; left--) {
        muon_step *most_expensive = NULL;
        int rank = 0;
        for (int i = 0; i < n; i++)
            if (steps[i].owner < 0 && (!most_expensive || steps[i].cost > most_expensive->cost))
                most_expensive = &steps[i];
        for (int i = 1; i < pass->g->mesh.size[AXIS_DATA]; i++)
            if (pass->load[i] < pass->load[rank]) rank = i;
        most_expensive->owner = rank;
        pass->load[rank] += most_expensive->cost;
    }
}

static void update_group(const muon_pass *pass, tensor *const *weights, tensor *const *grads,
        muon_step *steps, int n, tensor **updated) {
    if (has_owners(pass)) choose_owners(pass, steps, n);
    for (int i = 0; i < n; i++)
        begin(pass, weights[steps[i].index], grads[steps[i].index], &steps[i]);
    for (int i = 0; i < n; i++)
        orthogonalise(pass, &steps[i]);
    for (int i = 0; i < n; i++)
        updated[steps[i].index] = end(pass, &steps[i]);
}

static muon_step step_of(const muon_pass *pass, const tensor *w, int index) {
    const muon_weight *by = &pass->opts->muon[index];
    return (muon_step){.by = by,
            .weight = w,
            .index = index,
            .owner = -1,
            .cost = cost(pass, w, by)};
}

void update_muon(graph *g, tensor *const *weights, tensor *const *grads, int n, tensor *norm2,
        tensor *hyper, const update_opts *opts, tensor **updated) {
    const int ranks = g->mesh.size[AXIS_DATA];
    double *load = ARENA_ARRAY(g->a, double, ranks);
    const muon_pass pass = {.g = g, .opts = opts, .norm2 = norm2, .hyper = hyper, .load = load};
    const int most = has_owners(&pass) ? GROUP_WEIGHTS * ranks : 1;
    muon_step *steps = ARENA_ARRAY(g->a, muon_step, most);
    for (int i = 0, n_steps = 0; i < n; i++) {
        if (update_by_muon(opts, i)) steps[n_steps++] = step_of(&pass, weights[i], i);
        if (n_steps < most && i + 1 < n) continue;
        update_group(&pass, weights, grads, steps, n_steps, updated);
        n_steps = 0;
    }
}
