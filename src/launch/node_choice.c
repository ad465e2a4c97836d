// Chooses nodes and a layout for the next attempt.
#include "launch/node_choice.h"

#include "base/clock.h"

int choice_full(const launch_job *job) {
    return job->n_nodes - job->rules.n_spares;
}

int choice_count_usable(const meeting *met) {
    int n = 0;
    for (int i = 0; i < met->job->n_nodes; i++)
        n += meeting_is_usable(met, i);
    return n;
}

int choice_count_not_excluded(const meeting *met) {
    int n = 1;
    for (int i = 1; i < met->job->n_nodes; i++)
        n += met->members[i].here && !met->members[i].excluded;
    return n;
}

bool choice_one_is_late(const meeting *met) {
    for (int i = 1; i < met->job->n_nodes; i++)
        if (met->members[i].here && !met->members[i].excluded && !meeting_is_usable(met, i))
            return true;
    return false;
}

drv_status choice_layout(const meeting *met, int n_usable, attempt_layout *out) {
    const int full = choice_full(met->job);
    *out = (attempt_layout){.n_nodes = full, .same_bits = true, .words = ""};
    if (n_usable >= full) return DRV_OK;
    return met->job->planner->choose(met->job->planner->ctx, met->a, n_usable,
            met->job->rules.min_nodes, out);
}

bool choice_could_grow(const meeting *met, int n_now, int *n_nodes) {
    attempt_layout layout;
    int n = n_now;
    if (met->job->rules.max_restarts == 0 || n == choice_full(met->job)) return false;
    for (int i = 1; i < met->job->n_nodes; i++) {
        const met_node *m = &met->members[i];
        n += m->place < 0 && meeting_is_usable(met, i) &&
             clock_s() - m->came_s >= met->job->rules.grow_after_s;
    }
    if (n == n_now || choice_layout(met, n, &layout) != DRV_OK) return false;
    *n_nodes = layout.n_nodes;
    return layout.n_nodes > n_now;
}

// Returns whether a node is left out. If there are more than are needed, outliers are left out
// first, the worst of them before the others.
static bool is_left_out(const meeting *met, int node, int n_spare) {
    const double share = met->members[node].share;
    int n_worse = 0;
    if (node == 0 || share >= 1) return false;
    for (int i = 1; i < met->job->n_nodes; i++)
        n_worse += meeting_is_usable(met, i) &&
                   (met->members[i].share < share || (met->members[i].share <= share && i > node));
    return n_worse < n_spare;
}

int *choice_pick(const meeting *met, int n_nodes) {
    int *nodes = ARENA_ARRAY(met->a, int, n_nodes), place = 0;
    const int n_spare = choice_count_usable(met) - n_nodes;
    for (int i = 0; i < met->job->n_nodes && place < n_nodes; i++)
        if (meeting_is_usable(met, i) && !is_left_out(met, i, n_spare)) nodes[place++] = i;
    return place == n_nodes ? nodes : NULL;
}

// Excluded nodes do not count: there is no use in waiting for them.
int choice_count_possible(const meeting *met) {
    int n = 1;
    for (int i = 1; i < met->job->n_nodes; i++)
        n += !met->members[i].excluded;
    return n;
}
