// Ops on numbers that are kept in bf16 and rounded stochastically (ir/rounding.h): state of the
// optimizer, sums of gradients (docs/adr/0019).
#include "ir/hyper.h"
#include "ir/op.h"
#include "ir/rounding.h"

// bf16, or the accumulation type, in which nothing is rounded.
static bool is_kept(const tensor *t, dtype acc) {
    return t->dt == DT_BF16 || t->dt == acc;
}

// adamw_rounded(p, m, v, g, norm2, hyper, extent[, w]) -> p', m', v', g' = 0[, w' = p' in bf16]. As
// adamw computes it, in fp32; p, m and v, and g, may each be bf16. p', m' and v' are rounded
// stochastically to what they are kept in, by bits of element and update; w' to nearest.
static const char *adamw_shape(const node *n, tensor_spec *out) {
    const dtype acc = n->in[0]->dt == DT_F64 ? DT_F64 : DT_F32;
    for (int i = 0; i < 4; i++) {
        out[i] = spec_in_place(n, i);
        if (!same_shape(n->in[i], n->in[0])) return "p, m, v, g must have one shape";
        if (!is_kept(n->in[i], acc)) return "p, m, v, g must be bf16 or real sums";
    }
    if (n->in[1]->dt != n->in[2]->dt) return "m and v must have one type";
    if (!is_f64(n->in[4], 1)) return "norm2 must be one f64";
    if (!is_f64(n->in[5], N_HYPER)) return "hyper must be f64[N_HYPER]";
    if (!is_i32(n->in[6], N_EXTENT_WORDS)) return "extent must be i32[N_EXTENT_WORDS]";
    if (n->n_in == 8) {
        out[4] = spec_in_place(n, 7);
        if (!same_shape(n->in[7], n->in[0])) return "the compute copy must fit p";
    }
    return NULL;
}

// Two parts, of which this rank has columns 4 .. 20 of 40.
static const int32_t example_extent[N_EXTENT_WORDS] = {17, 40, 4, 0, /* part */ 0, 8, 77, 78, 79,
        80,
        /* part */ 2, 5, 87, 88, 89, 90, /* none */ -1, 0, 0, 0, 0, 0};

#define IN_MOMENTS(weight, moments)                                                                \
    IN_STATE(TENSOR_OPTIMIZER, weight, -1, 1, "p", 3, 17),                                         \
            IN_STATE(TENSOR_OPTIMIZER, moments, -0.1, 0.1, "m", 3, 17),                            \
            IN_STATE(TENSOR_OPTIMIZER, moments, 0.01, 0.1, "v", 3, 17)
#define IN_KEPT   IN_STATE(TENSOR_GRAD, EXAMPLE_KEPT, -1, 1, "g", 3, 17)
#define IN_EXTENT IN_INTEGERS("extent", N_EXTENT_WORDS, example_extent)
#define ADAMW_ATTRS                                                                                \
    { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1 }
static const example_case adamw_examples[] = {{.in = {IN_MOMENTS(EXAMPLE_KEPT, EXAMPLE_KEPT),
                                                       IN_KEPT, IN_NORM2, IN_HYPER, IN_EXTENT},
                                                      .attrs.update = ADAMW_ATTRS},
        {.in = {IN_MOMENTS(EXAMPLE_SUMS, EXAMPLE_KEPT), IN_SUMS("g", 3, 17), IN_NORM2, IN_HYPER,
                 IN_EXTENT, IN_COPY},
                .attrs.update = ADAMW_ATTRS},
        {.in = {IN_MOMENTS(EXAMPLE_SUMS, EXAMPLE_SUMS), IN_KEPT, IN_NORM2, IN_HYPER, IN_EXTENT},
                .attrs.update = ADAMW_ATTRS},
        {0}};

const op_row op_row_adamw_rounded = {
        .n_in = 7,
        .max_in = 8,
        .shape = adamw_shape,
        .built = true,
        .attrs = ATTRS(ATTR(update, eps), ATTR(update, beta1), ATTR(update, beta2),
                ATTR(update, weight_decay)),
        .examples = adamw_examples,
};

// zeros() -> 0, real sums of the shape of a weight for each reduction block of the row. A gradient
// of a micro-batch is added to these zeros before its sum is rounded, or sent to the rank that
// keeps it.
static const char *zeros_shape(const node *n, tensor_spec *out) {
    out[0] = spec_by_block(&n->attrs, spec_whole(&n->attrs));
    return check_whole(&n->attrs);
}

static void make_zeros(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    attrs.whole.type = dtype_acc(e->dt);
    graph_add(e->g, OP_zeros, n_in, in, &attrs);
}

static const example_case zeros_examples[] = {{.attrs.whole = {.rows = 3, .columns = 17},
                                                      .make = make_zeros},
        {.attrs = {.sum.row_blocks = 2, .whole.rows = 51}, .make = make_zeros}, {0}};

const op_row op_row_zeros = {
        .clears = true,
        .shape = zeros_shape,
        .attrs = ATTRS(ATTR(sum, row_blocks), ATTR_WHOLE),
        .examples = zeros_examples,
};

// add_rounded(g, x, extent, number) -> g' = g + x, in place, rounded stochastically by bits of
// element and `number` i32[2], which no two sums of a run share.
static const char *add_shape(const node *n, tensor_spec *out) {
    const tensor *g = n->in[0], *x = n->in[1];
    out[0] = spec_in_place(n, 0);
    if (!same_shape(g, x) || !is_kept(g, x->dt)) return "the sum must be bf16 in the shape of x";
    if (!is_i32(n->in[2], N_EXTENT_WORDS)) return "extent must be i32[N_EXTENT_WORDS]";
    return is_i32(n->in[3], 2) ? NULL : "number must be i32[2]";
}

static const int32_t example_number[] = {5, 0};
static const example_case add_examples[] =
        {{.in = {IN_KEPT, IN_STATE(TENSOR_INPUT, EXAMPLE_SUMS, -1, 1, "x", 3, 17), IN_EXTENT,
                  IN_INTEGERS("number", 2, example_number)}},
                {0}};

const op_row op_row_add_rounded = {
        .goes_with = 2,
        .n_in = 4,
        .shape = add_shape,
        .examples = add_examples,
};
