// Sums up the nodes of a rank's programs, which the back end has timed, as rows.
#include "search/step_profile.h"

#include <stdlib.h>
#include <string.h>

#include "ir/op.h"

static profile_program program_of(const node *n, double sent) {
    if (op_rows[n->op]->collective && sent > 0) return PROFILE_BETWEEN_RANKS;
    if (n->phase == PHASE_UPDATE) return PROFILE_UPDATE;
    if (n->recomputed) return PROFILE_AGAIN;
    return n->phase == PHASE_FORWARD ? PROFILE_FORWARD : PROFILE_BACKWARD;
}

static void add_node(const graph *g, const node *n, double seconds, int64_t n_runs,
        step_profile *to) {
    double wire[N_AXES] = {0}, sent = 0;
    plan_add_wire(g, n, wire);
    for (int axis = 0; axis < N_AXES; axis++)
        sent += wire[axis];
    const profile_program program = program_of(n, sent);
    profile_row *row = &to->rows[program * N_OPS + n->op];
    const double runs = (double)n_runs;
    row->program = program;
    row->op = n->op;
    row->count += n_runs;
    row->seconds += seconds;
    row->bytes += runs * node_bytes(n);
    row->sent += runs * sent;
    if (op_rows[n->op]->flops) row->flops += runs * op_rows[n->op]->flops(n);
}

static int longest_first(const void *a, const void *b) {
    const profile_row *x = a, *y = b;
    if (x->program != y->program) return (int)x->program - (int)y->program;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

void step_profile_take(const programs *p, double step_s, step_profile *out) {
    memset(out, 0, sizeof *out);
    out->step_s = out->outside_s = step_s;
    for (int i = 0; i < p->held.n_all; i++) {
        const built_program *built = &p->held.all[i];
        int64_t n_runs;
        const double *seconds = backend_node_seconds(p->held.b, *built->run, &n_runs);
        for (int k = 0; k < built->graph->n_nodes && n_runs > 0; k++)
            if (seconds[k] >= 0)
                add_node(built->graph, built->graph->nodes[k], seconds[k], n_runs, out);
    }
    for (int i = 0; i < N_PROFILE_PROGRAMS * N_OPS; i++) {
        if (out->rows[i].count == 0) continue;
        out->outside_s -= out->rows[i].seconds;
        out->rows[out->n_rows++] = out->rows[i];
    }
    qsort(out->rows, (size_t)out->n_rows, sizeof *out->rows, longest_first);
}

double profile_least_s(const profile_row *row, const machine_roof *roof, bool *by_memory) {
    const double compute = roof->flops_per_s > 0 ? row->flops / roof->flops_per_s : 0,
                 memory = roof->bytes_per_s > 0 ? row->bytes / roof->bytes_per_s : 0;
    *by_memory = memory > compute;
    return memory > compute ? memory : compute;
}

const char *profile_program_name(profile_program program) {
    static const char *const names[] = {[PROFILE_FORWARD] = "forward",
            [PROFILE_AGAIN] = "recomputed",
            [PROFILE_BACKWARD] = "backward",
            [PROFILE_UPDATE] = "optimizer",
            [PROFILE_BETWEEN_RANKS] = "ranks"};
    return names[program];
}
