// The table of all ops and the table of all attributes.
#include "ir/op.h"

#include <stddef.h>

#define X(name) extern const op_row op_row_##name;
IR_OPS(X)
#undef X

const op_row *const op_rows[N_OPS] = {
#define X(name) &op_row_##name,
        IR_OPS(X)
#undef X
};

double node_bytes(const node *n) {
    double bytes = 0;
    if (op_rows[n->op]->touched) return op_rows[n->op]->touched(n);
    for (int i = 0; i < n->n_in; i++)
        bytes += (double)tensor_bytes(n->in[i]);
    for (int o = 0; o < n->n_out; o++)
        bytes += (double)tensor_bytes(n->out[o]);
    return bytes;
}

#define ROW(type, name, member) {#name, offsetof(op_attrs, member), ATTR_KIND_##type},
const op_attr op_attr_table[N_ATTRS] = {
#define X(type, name) ROW(type, name, name)
        OP_ATTRS(X)
#undef X
#define X(type, name) ROW(type, name, mesh.name)
                MESH_USE(X)
#undef X
#define X(type, name) ROW(type, name, sum.name)
                        SUM_TREE(X)
#undef X
#define X(type, name) ROW(type, name, rope.name)
                                ROPE_ANGLES(X)
#undef X
#define X(i, first, factor)                                                                        \
    ROW(int, first, branches[i].column) ROW(double, factor, branches[i].alpha)
                                        BRANCH_ATTRS(X)
#undef X
};

_Static_assert(N_ATTRS <= 8 * (int)sizeof(op_attr_set), "a row lists its attributes as bits");

// Every double but +0 counts as set: -0 and NaN print as themselves.
static bool is_zero(const op_attrs *attrs, const op_attr *field) {
    static const char zeros[sizeof(double)];
    const char *value = (const char *)attrs + field->offset;
    const size_t bytes = field->kind == ATTR_KIND_double  ? sizeof(double)
                         : field->kind == ATTR_KIND_dtype ? sizeof(dtype)
                                                          : sizeof(int);
    return memcmp(value, zeros, bytes) == 0;
}

const char *op_attrs_unlisted(const node *n) {
    for (int i = 0; i < N_ATTRS; i++)
        if (!op_reads(n->op, (op_attr_id)i) && !is_zero(&n->attrs, &op_attr_table[i]))
            return "an attribute is set that the op's row does not list";
    return NULL;
}
