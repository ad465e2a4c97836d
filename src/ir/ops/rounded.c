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
static const char *adamw_shape(const node *n, tensor_spec *out, int *n_out) {
    const dtype acc = n->in[0]->dt == DT_F64 ? DT_F64 : DT_F32;
    *n_out = 4;
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
        out[(*n_out)++] = spec_in_place(n, 7);
        if (!same_shape(n->in[7], n->in[0])) return "the compute copy must fit p";
    }
    return NULL;
}

// Two parts, of which this rank has columns 4 .. 20 of 40.
static const int32_t example_extent[N_EXTENT_WORDS] = {17, 40, 4, 0, /* part */ 0, 8, 77, 78, 79,
        80,
        /* part */ 2, 5, 87, 88, 89, 90, /* none */ -1, 0, 0, 0, 0, 0};

static void adamw_example_of(example *e, dtype weight, dtype moments, dtype grad, bool copy) {
    const dtype acc = dtype_acc(e->dt);
    if (acc == DT_F64) weight = moments = grad = acc;
    tensor *in[8] = {example_state(e, TENSOR_OPTIMIZER, "p", weight, 3, 17, -1, 1),
            example_state(e, TENSOR_OPTIMIZER, "m", moments, 3, 17, -0.1, 0.1),
            example_state(e, TENSOR_OPTIMIZER, "v", moments, 3, 17, 0.01, 0.1),
            example_state(e, TENSOR_GRAD, "g", grad, 3, 17, -1, 1),
            example_state(e, TENSOR_INPUT, "norm2", DT_F64, 1, 0, 1, 4),
            example_state(e, TENSOR_INPUT, "hyper", DT_F64, N_HYPER, 0, 0.1, 0.5),
            example_integers(e, "extent", N_EXTENT_WORDS, example_extent)};
    if (copy) in[7] = example_state(e, TENSOR_WEIGHT, "w", DT_BF16, 3, 17, -1, 1);
    const op_attrs attrs = {.update.beta1 = 0.9,
            .update.beta2 = 0.95,
            .update.eps = 1e-8,
            .update.weight_decay = 0.1};
    graph_add(e->g, OP_adamw_rounded, copy ? 8 : 7, in, &attrs);
}

static void all_bf16_example(example *e) {
    adamw_example_of(e, DT_BF16, DT_BF16, DT_BF16, false);
}

static void masters_example(example *e) {
    adamw_example_of(e, DT_F32, DT_BF16, DT_F32, true);
}

static void gradients_example(example *e) {
    adamw_example_of(e, DT_F32, DT_F32, DT_BF16, false);
}

const op_row op_row_adamw_rounded = {
        .name = "adamw_rounded",
        .min_in = 7,
        .max_in = 8,
        .shape = adamw_shape,
        .built = true,
        .differentiated = true,
        .attrs = ATTRS(ATTR(update, eps), ATTR(update, beta1), ATTR(update, beta2),
                ATTR(update, weight_decay)),
        .examples = {all_bf16_example, masters_example, gradients_example},
};

// zeros() -> 0, real sums of the shape of a weight for each reduction block of the row. A gradient
// of a micro-batch is added to these zeros before its sum is rounded, or sent to the rank that
// keeps it.
static const char *zeros_shape(const node *n, tensor_spec *out, int *n_out) {
    out[0] = spec_by_block(&n->attrs, spec_whole(&n->attrs));
    *n_out = 1;
    return check_whole(&n->attrs);
}

static void zeros_example(example *e) {
    graph_add(e->g, OP_zeros, 0, NULL,
            &(op_attrs){.whole = {.rows = 3, .columns = 17, .type = dtype_acc(e->dt)}});
}

static void zeros_row_blocks_example(example *e) {
    graph_add(e->g, OP_zeros, 0, NULL,
            &(op_attrs){.sum.row_blocks = 2, .whole = {.rows = 51, .type = dtype_acc(e->dt)}});
}

const op_row op_row_zeros = {
        .name = "zeros",
        .clears = true,
        .shape = zeros_shape,
        .differentiated = true,
        .attrs = ATTRS(ATTR(sum, row_blocks), ATTR_WHOLE),
        .examples = {zeros_example, zeros_row_blocks_example},
};

// add_rounded(g, x, extent, number) -> g' = g + x, in place, rounded stochastically by bits of
// element and `number` i32[2], which no two sums of a run share.
static const char *add_shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *g = n->in[0], *x = n->in[1];
    out[0] = spec_in_place(n, 0);
    *n_out = 1;
    if (!same_shape(g, x) || !is_kept(g, x->dt)) return "the sum must be bf16 in the shape of x";
    if (!is_i32(n->in[2], N_EXTENT_WORDS)) return "extent must be i32[N_EXTENT_WORDS]";
    return is_i32(n->in[3], 2) ? NULL : "number must be i32[2]";
}

static void add_example(example *e) {
    static const int32_t number[] = {5, 0};
    const dtype acc = dtype_acc(e->dt);
    tensor *in[] = {example_state(e, TENSOR_GRAD, "g", acc == DT_F64 ? acc : DT_BF16, 3, 17, -1, 1),
            example_state(e, TENSOR_INPUT, "x", acc, 3, 17, -1, 1),
            example_integers(e, "extent", N_EXTENT_WORDS, example_extent),
            example_integers(e, "number", 2, number)};
    graph_add(e->g, OP_add_rounded, 4, in, NULL);
}

const op_row op_row_add_rounded = {
        .name = "add_rounded",
        .goes_with = 2,
        .min_in = 4,
        .max_in = 4,
        .shape = add_shape,
        .differentiated = true,
        .examples = {add_example},
};
