// A graph as text: state, then one line per node. The text is the graph's identity (see graph.h),
// so doubles print with as many digits as reading them back needs.
#include "ir/op.h"

static void print_value(const tensor *t, str *out) {
    if (t->name)
        str_puts(out, t->name);
    else
        str_printf(out, "%%%d", t->id);
}

static void print_type(const tensor *t, str *out) {
    str_printf(out, "%s[", dtype_name(t->dt));
    for (int i = 0; i < t->n_dims; i++)
        str_printf(out, i ? ",%lld" : "%lld", (long long)t->dim[i]);
    str_puts(out, "]");
    for (int i = 0; t->blocks && i < t->blocks->n_parts; i++)
        str_printf(out, "%s%s x %lld", i ? ", " : " in ", t->blocks->part[i].type->name,
                (long long)t->blocks->part[i].rows);
}

static void print_attr(const op_attrs *attrs, const op_attr *field, str *out) {
    const void *value = (const char *)attrs + field->offset;
    str_printf(out, "%s ", field->name);
    switch (field->kind) {
    case ATTR_INT:
        str_printf(out, "%d", *(const int *)value);
        break;
    case ATTR_DOUBLE:
        str_puts(out, str_real(*(const double *)value));
        break;
    case ATTR_DTYPE:
        str_puts(out, dtype_name(*(const dtype *)value));
        break;
    }
}

static void print_attrs(const node *n, str *out) {
    const char *before = " {";
    const op_attr *listed = op_rows[n->op]->attrs;
    for (; listed && listed->name; listed++) {
        str_puts(out, before);
        print_attr(&n->attrs, listed, out);
        before = ", ";
    }
    if (listed) str_puts(out, "}");
}

static void print_state(const graph *g, str *out) {
    static const char *const classes[] = {"temp", "input", "output", "weight", "grad", "optimizer",
            "cache", "kept"};
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->def || t->cls == TENSOR_TEMP) continue;
        str_printf(out, "  %s %s ", classes[t->cls], t->name);
        print_type(t, out);
        if (t->cls == TENSOR_WEIGHT && !t->trainable) str_puts(out, " frozen");
        if (t->cls == TENSOR_INPUT && t->trainable) str_puts(out, " differentiated");
        if (t->n_slots > 1) str_printf(out, " x %d", t->n_slots);
        str_puts(out, "\n");
    }
}

static void print_node(const node *n, str *out) {
    str_puts(out, "  ");
    for (int o = 0; o < n->n_out; o++) {
        if (o) str_puts(out, ", ");
        print_value(n->out[o], out);
        str_puts(out, " ");
        print_type(n->out[o], out);
    }
    str_printf(out, " = %s(", op_name(n->op));
    for (int k = 0; k < n->n_in; k++) {
        if (k) str_puts(out, ", ");
        print_value(n->in[k], out);
    }
    str_puts(out, ")");
    print_attrs(n, out);
    if (n->recomputed) str_puts(out, "  # again");
    str_puts(out, "\n");
}

// Prints the mesh and the reduction blocks of a row where there are several: sums depend on them,
// but nodes do not show them.
static void print_head(const graph *g, str *out) {
    const char *before = " on ";
    str_printf(out, "graph %s", g->name);
    for (int axis = 0; axis < N_AXES; axis++) {
        if (g->mesh.size[axis] == 1) continue;
        str_printf(out, "%s%s %d", before, mesh_axis_name((mesh_axis)axis), g->mesh.size[axis]);
        before = ", ";
    }
    if (g->row_blocks > 1) str_printf(out, "%s%d reduction blocks of a row", before, g->row_blocks);
    str_puts(out, " {\n");
}

void graph_print(const graph *g, str *out) {
    static const char *const phases[] = {"forward", "backward", "update"};
    print_head(g, out);
    print_state(g, out);
    int layer = -2;
    phase ph = PHASE_FORWARD;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        if (n->layer != layer || n->phase != ph) {
            layer = n->layer;
            ph = n->phase;
            str_printf(out, layer >= 0 ? "  # %s, layer %d\n" : "  # %s\n", phases[ph], layer);
        }
        print_node(n, out);
    }
    str_puts(out, "}\n");
}
