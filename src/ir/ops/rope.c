// Rotary position embedding, arXiv:2104.09864 equation 34, in the rotate-half form of the Hugging
// Face Llama: dims i and i + D/2 of a head are one pair.
#include "ir/grad.h"

// rope_table(position_N) -> t_ND of table_dtype: cos of the D/2 angles, then their sin. "llama3"
// frequency scaling (factor > 0) as in the Llama-3.1 release: see kernels/ref/ref_rope.c for the
// formula.
static const char *table_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *p = n->in[0];
    *n_out = 1;
    if (!is_i32(p, p->dim[0])) return "position must be i32[N]";
    if (n->attrs.heads.head_dim < 2 || n->attrs.heads.head_dim % 2) return "head_dim must be even";
    if (n->attrs.rope.table_dtype != DT_F32 && n->attrs.rope.table_dtype != DT_F64)
        return "the table must be f32 or f64";
    out[0] = spec_2d(n->attrs.rope.table_dtype, p->dim[0], n->attrs.heads.head_dim);
    return NULL;
}

// Theta as in Llama 2; the scaling of Llama 3.1 with a context so short that the five frequencies
// fall into all three of its bands (kept, blended, divided by factor).
static const int32_t example_positions[5] = {0, 1, 2, 0, 70};

static node *table(example *e, int head_dim, double factor) {
    op_attrs attrs = {.heads.head_dim = head_dim,
            .rope.theta = 10000,
            .rope.table_dtype = dtype_acc(e->dt)};
    if (factor > 0) {
        attrs.rope.factor = factor;
        attrs.rope.low_freq_factor = 1;
        attrs.rope.high_freq_factor = 4;
        attrs.rope.original_context = 64;
    }
    tensor *in[] = {example_integers(e, "position", 5, example_positions)};
    return graph_add(e->g, OP_rope_table, 1, in, &attrs);
}

static void table_example(example *e) {
    table(e, 6, 0);
}

static void scaled_table_example(example *e) {
    table(e, 10, 8);
}

const op_row op_row_rope_table = {
        .name = "rope_table",
        .min_in = 1,
        .max_in = 1,
        .shape = table_shape,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR(heads, head_dim), ATTR(rope, table_dtype), ATTR(rope, theta),
                ATTR(rope, factor), ATTR(rope, low_freq_factor), ATTR(rope, high_freq_factor),
                ATTR(rope, original_context)),
        .examples = {table_example, scaled_table_example},
};

// rope(x_NC, table_ND) -> y: rotates the first n_heads heads of each row, copies the rest.
static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *x = n->in[0], *t = n->in[1];
    out[0] = spec_may_alias(n, 0);
    *n_out = 1;
    if (!is_matrix(x) || !is_matrix(t) || t->dt != dtype_acc(x->dt)) return "wrong types";
    if (t->dim[0] != x->dim[0] || t->dim[1] != n->attrs.heads.head_dim)
        return "the table does not fit x";
    if ((int64_t)n->attrs.heads.n_heads * n->attrs.heads.head_dim > x->dim[1])
        return "more heads than columns";
    return NULL;
}

static void grad(grad_ctx *ctx, node *n) {
    tensor *in[] = {grad_of(ctx, n->out[0]), n->in[1]};
    op_attrs attrs = n->attrs;
    attrs.rope.inverse = !attrs.rope.inverse;
    grad_add(ctx, n->in[0], graph_add(ctx->g, OP_rope, 2, in, &attrs)->out[0]);
}

// Two heads are rotated, two copied.
static void rotate(example *e, int inverse) {
    tensor *in[] = {example_activation(e, "x", 5, 24), table(e, 6, 0)->out[0]};
    graph_add(e->g, OP_rope, 2, in,
            &(op_attrs){.heads.n_heads = 2, .heads.head_dim = 6, .rope.inverse = inverse});
}

static void rotate_example(example *e) {
    rotate(e, 0);
}

static void inverse_example(example *e) {
    rotate(e, 1);
}

const op_row op_row_rope = {
        .name = "rope",
        .min_in = 2,
        .max_in = 2,
        .shape = shape,
        .grad = grad,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR(heads, n_heads), ATTR(heads, head_dim), ATTR(rope, inverse)),
        .examples = {rotate_example, inverse_example},
};
