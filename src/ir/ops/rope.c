// Rotary position embedding, arXiv:2104.09864 equation 34, in the rotate-half form of the Hugging
// Face Llama: dims i and i + D/2 of a head are one pair.
#include "ir/grad.h"

// rope_table(position_N) -> t_ND of table_dtype: cos of the D/2 angles, then their sin. "llama3"
// frequency scaling (factor > 0) as in the Llama-3.1 release: see kernels/ref/ref_rope.c for the
// formula.
static const char *table_shape(const node *n, tensor_spec *out) {
    const tensor *p = n->in[0];
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

static tensor *table(example *e, tensor *position, op_attrs attrs) {
    attrs.rope.theta = 10000;
    attrs.rope.table_dtype = dtype_acc(e->dt);
    return graph_add(e->g, OP_rope_table, 1, &position, &attrs)->out[0];
}

static void make_table(example *e, int n_in DRV_UNUSED, tensor *const *in, op_attrs attrs) {
    table(e, in[0], attrs);
}

#define IN_POSITIONS IN_INTEGERS("position", 5, example_positions)
static const example_case table_examples[] = {{.in = {IN_POSITIONS},
                                                      .attrs.heads.head_dim = 6,
                                                      .make = make_table},
        {.in = {IN_POSITIONS},
                .attrs.heads.head_dim = 10,
                .attrs.rope = {.factor = 8,
                        .low_freq_factor = 1,
                        .high_freq_factor = 4,
                        .original_context = 64},
                .make = make_table},
        {0}};

const op_row op_row_rope_table = {
        .n_in = 1,
        .shape = table_shape,
        .built = true,
        .attrs = ATTRS(ATTR(heads, head_dim), ATTR(rope, table_dtype), ATTR(rope, theta),
                ATTR(rope, factor), ATTR(rope, low_freq_factor), ATTR(rope, high_freq_factor),
                ATTR(rope, original_context)),
        .examples = table_examples,
};

// rope(x_NC, table_ND) -> y: rotates the first n_heads heads of each row, copies the rest.
static const char *shape(const node *n, tensor_spec *out) {
    const tensor *x = n->in[0], *t = n->in[1];
    out[0] = spec_may_alias(n, 0);
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

static void make_rotated(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    const op_attrs angles = {.heads.head_dim = attrs.heads.head_dim};
    graph_add(e->g, OP_rope, n_in, (tensor *[]){in[0], table(e, in[1], angles)}, &attrs);
}

// Two heads are rotated, two copied.
static const example_case examples[] = {{.in = {IN_ACTIVATION("x", 5, 24), IN_POSITIONS},
                                                .attrs.heads = {.n_heads = 2, .head_dim = 6},
                                                .make = make_rotated},
        {.in = {IN_ACTIVATION("x", 5, 24), IN_POSITIONS},
                .attrs = {.heads = {.n_heads = 2, .head_dim = 6}, .rope.inverse = 1},
                .make = make_rotated},
        {0}};

const op_row op_row_rope = {
        .n_in = 2,
        .shape = shape,
        .grad = grad,
        .built = true,
        .attrs = ATTRS(ATTR(heads, n_heads), ATTR(heads, head_dim), ATTR(rope, inverse)),
        .examples = examples,
};
