// The table of all ops and the table of all attributes.
#include "ir/op.h"

#include <string.h>

#define X(name) extern const op_row op_row_##name;
IR_OPS(X)
#undef X

const op_row *const op_rows[N_OPS] = {
#define X(name) &op_row_##name,
        IR_OPS(X)
#undef X
};

const char *op_name(op_kind op) {
    static const char *const names[N_OPS] = {
#define X(name) #name,
            IR_OPS(X)
#undef X
    };
    return names[op];
}

const char *op_outputs(const node *n, tensor_spec out[MAX_OUT], int *n_out) {
    memset(out, 0, sizeof *out * MAX_OUT);
    const char *bad = op_rows[n->op]->shape(n, out);
    *n_out = 0;
    while (*n_out < MAX_OUT && out[*n_out].n_dims > 0)
        ++*n_out;
    return bad;
}

double node_bytes(const node *n) {
    double bytes = 0;
    if (op_rows[n->op]->touched) return op_rows[n->op]->touched(n);
    for (int i = 0; i < n->n_in; i++)
        bytes += (double)tensor_bytes(n->in[i]);
    for (int o = 0; o < n->n_out; o++)
        bytes += (double)tensor_bytes(n->out[o]);
    return bytes;
}

#define ROW(g, type, name) ATTR(g, name),
#define G(family, LIST)    LIST(ROW, family)
const op_attr op_attr_table[] = {MESH_USE(ROW, mesh) SUM_TREE(ROW, sum) HEAD_SIZES(ROW, heads)
                                         OP_FAMILIES(G) ATTR(low_rank, from),
        ATTR_BRANCH(1), ATTR_BRANCH(2), ATTR_BRANCH(3), {0}};
#undef G
#undef ROW

bool op_reads(op_kind op, const op_attr *attr) {
    for (const op_attr *listed = op_rows[op]->attrs; listed && listed->name; listed++)
        if (listed->group == attr->group && listed->offset == attr->offset) return true;
    return false;
}

static size_t attr_bytes(const op_attr *attr) {
    return attr->kind == ATTR_DOUBLE  ? sizeof(double)
           : attr->kind == ATTR_DTYPE ? sizeof(dtype)
                                      : sizeof(int);
}

// Every double but +0 counts as set: -0 and NaN print as themselves.
const char *op_attrs_unlisted(const node *n) {
    static const char zeros[sizeof(op_attrs)];
    op_attr_group family = ATTRS_low_rank;
    op_attrs rest = n->attrs;
    for (const op_attr *listed = op_rows[n->op]->attrs; listed && listed->name; listed++) {
        memset((char *)&rest + listed->offset, 0, attr_bytes(listed));
        if (listed->group >= ATTRS_low_rank) family = listed->group;
    }
    if (memcmp(&rest, zeros, sizeof rest) == 0) return NULL; // as nearly always
    for (const op_attr *attr = op_attr_table; attr->name; attr++) {
        const bool applies = attr->group < ATTRS_low_rank || attr->group == family;
        if (applies && memcmp((const char *)&rest + attr->offset, zeros, attr_bytes(attr)) != 0)
            return "an attribute is set that the op's row does not list";
    }
    return NULL;
}
