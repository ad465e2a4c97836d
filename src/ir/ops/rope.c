// Rotary position embedding, arXiv:2104.09864 equation 34, in the rotate-half form of the Hugging
// Face Llama: dims i and i + D/2 of a head are one pair.
#include "ir/op.h"

// rope_table(position_N) -> t_ND: cos of the D/2 angles, then their sin. "llama3" frequency scaling
// (factor > 0) as in the Llama-3.1 release: see kernels/ref/ref_rope.c for the formula.
static const char *table_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *p = n->in[0];
    *n_out = 1;
    if (!is_i32(p, p->dim[0])) return "position must be i32[N]";
    if (n->attrs.head_dim < 2 || n->attrs.head_dim % 2) return "head_dim must be even";
    out[0] = spec_2d(n->n_in > 1 ? DT_F64 : DT_F32, p->dim[0], n->attrs.head_dim);
    return NULL;
}

const op_row op_row_rope_table = {
        .name = "rope_table",
        .min_in = 1,
        .max_in = 2, // a second input only says that the table is to be f64
        .shape = table_shape,
        .built = true,
        .differentiated = true,
        .attrs = "head_dim theta factor",
};

// rope(x_NC, table_ND) -> y: rotates the first n_heads heads of each row, copies the rest.
static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *x = n->in[0], *t = n->in[1];
    out[0] = spec_like(x);
    out[0].alias_in = 0;
    out[0].may_alias = true;
    *n_out = 1;
    if (!is_matrix(x) || !is_matrix(t) || t->dt != dtype_acc(x->dt)) return "wrong types";
    if (t->dim[0] != x->dim[0] || t->dim[1] != n->attrs.head_dim) return "the table does not fit x";
    if ((int64_t)n->attrs.n_heads * n->attrs.head_dim > x->dim[1]) return "more heads than columns";
    return NULL;
}

static void grad(grad_ctx *c, node *n) {
    tensor *in[] = {grad_of(c, n->out[0]), n->in[1]};
    op_attrs attrs = n->attrs;
    attrs.inverse = !attrs.inverse;
    grad_add(c, n->in[0], graph_add(c->g, OP_rope, 2, in, &attrs)->out[0]);
}

static void example(graph *g, dtype dt) {
    op_attrs attrs = {.head_dim = 6, .theta = 10000, .n_heads = 2, .seq = 5};
    tensor *x = example_weight(g, "x", dt, 5, 24);
    tensor *p[] = {example_ids(g, "position", 5), x};
    tensor *in[] = {x, graph_add(g, OP_rope_table, dt == DT_F64 ? 2 : 1, p, &attrs)->out[0]};
    graph_add(g, OP_rope, 2, in, &attrs);
}

const op_row op_row_rope = {
        .name = "rope",
        .min_in = 2,
        .max_in = 2,
        .shape = shape,
        .grad = grad,
        .built = true,
        .differentiated = true,
        .attrs = "heads head_dim inverse",
        .example = example,
};
