// Looks for the nodes that write to the sums of a gradient.
#include "programs/gradient_ops.h"

#include "ir/op.h"

typedef struct op_names {
    bool seen[N_OPS];
    str *text;
} op_names;

static void add_name(op_names *names, op_kind op) {
    if (names->seen[op]) return;
    names->seen[op] = true;
    str_printf(names->text, "%s%s", names->text->n ? " and " : "", op_name(op));
}

// If an op only adds what another op has computed (rounded, or from other ranks) to the sum, the
// other op is named.
static void add_writers(const graph *g, const tensor *sum, op_names *names) {
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        for (int o = 0; o < n->n_out; o++) {
            const op_row *row = op_rows[n->op];
            if (tensor_root(n->out[o]) != sum || row->clears) continue;
            const tensor *taken = row->goes_with ? tensor_root(n->in[row->goes_with - 1]) : NULL;
            if (!taken)
                add_name(names, n->op);
            else if (taken != sum)
                add_writers(g, taken, names);
        }
    }
}

static void add_of_graph(const graph *g, const char *name, op_names *names) {
    const tensor *sum = g ? graph_find(g, name) : NULL;
    if (sum) add_writers(g, tensor_root(sum), names);
}

void programs_gradient_ops(const programs *p, const char *parameter, str *out) {
    static const char *const use[] = {".second", ""}; // a table that is also the head has two sums
    op_names names = {.text = out};
    const param *w = param_of_part(&p->held.params, parameter);
    for (int i = 0; w && i < 2; i++) {
        char name[256];
        snprintf(name, sizeof name, "grad.%s%s", w->name, use[i]);
        add_of_graph(p->step_graph, name, &names);
        for (int chunk = 0; chunk < p->n_stages; chunk++)
            for (int part = 0; part < N_CUTS; part++)
                add_of_graph(p->stage[chunk].graph[part], name, &names);
    }
}
