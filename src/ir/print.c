#include <math.h>
#include <stddef.h>
#include <string.h>

#include "ir/op.h"

static const struct {
    const char *name;
    size_t offset;
    bool real;
} attr_fields[] = {
        {"ta", offsetof(op_attrs, ta), false},
        {"tb", offsetof(op_attrs, tb), false},
        {"heads", offsetof(op_attrs, n_heads), false},
        {"kv_heads", offsetof(op_attrs, n_kv_heads), false},
        {"head_dim", offsetof(op_attrs, head_dim), false},
        {"seq", offsetof(op_attrs, seq), false},
        {"inverse", offsetof(op_attrs, inverse), false},
        {"axis", offsetof(op_attrs, axis), false},
        {"ranks", offsetof(op_attrs, ranks), false},
        {"chunk", offsetof(op_attrs, chunk), false},
        {"eps", offsetof(op_attrs, eps), true},
        {"theta", offsetof(op_attrs, theta), true},
        {"factor", offsetof(op_attrs, factor), true},
        {"beta1", offsetof(op_attrs, beta1), true},
        {"beta2", offsetof(op_attrs, beta2), true},
        {"weight_decay", offsetof(op_attrs, weight_decay), true},
};

static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
    return false;
}

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
}

static void print_attrs(const node *n, str *out) {
    const char *used = op_rows[n->op]->attrs, *sep = " {";
    if (!used) return;
    for (size_t i = 0; i < sizeof attr_fields / sizeof *attr_fields; i++) {
        const char *field = (const char *)&n->attrs + attr_fields[i].offset;
        if (!has_word(used, attr_fields[i].name)) continue;
        if (attr_fields[i].real)
            str_printf(out, "%s%s %g", sep, attr_fields[i].name,
                    *(const double *)(const void *)field);
        else
            str_printf(out, "%s%s %d", sep, attr_fields[i].name, *(const int *)(const void *)field);
        sep = ", ";
    }
    str_puts(out, "}");
}

void graph_print(const graph *g, str *out) {
    static const char *const classes[] = {"temp", "input", "output", "weight", "grad", "optimizer",
            "cache"};
    static const char *const phases[] = {"forward", "backward", "update"};
    str_printf(out, "graph %s {\n", g->name);
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->def || t->cls == TENSOR_TEMP) continue;
        str_printf(out, "  %s %s ", classes[t->cls], t->name);
        print_type(t, out);
        str_puts(out, "\n");
    }
    int layer = -2;
    phase ph = PHASE_FORWARD;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        if (n->layer != layer || n->phase != ph) {
            layer = n->layer;
            ph = n->phase;
            if (layer >= 0)
                str_printf(out, "  # %s, layer %d\n", phases[ph], layer);
            else
                str_printf(out, "  # %s\n", phases[ph]);
        }
        str_puts(out, "  ");
        for (int o = 0; o < n->n_out; o++) {
            if (o) str_puts(out, ", ");
            print_value(n->out[o], out);
            str_puts(out, " ");
            print_type(n->out[o], out);
        }
        str_printf(out, " = %s(", op_rows[n->op]->name);
        for (int k = 0; k < n->n_in; k++) {
            if (k) str_puts(out, ", ");
            print_value(n->in[k], out);
        }
        str_puts(out, ")");
        print_attrs(n, out);
        if (n->recomputed) str_puts(out, "  # again");
        str_puts(out, "\n");
    }
    str_puts(out, "}\n");
}
