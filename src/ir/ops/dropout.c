// y_NK = x_NK / (1 - rate), or 0 with probability `rate` (arXiv:1207.0580; scaled as PyTorch's).
// dropout(x_NK, rows i32[2 B]) -> y, for N = B * seq tokens of B rows of the data.
//
// Which elements are dropped is a function of {seed, row, site, element of the row}: `rows` holds
// the number of each row in the run, low word first, and `site` is a number of the place in the
// model. So micro-batches of any size, recomputation and resuming give the same mask, and the
// gradient is the op itself.
#include "ir/grad.h"

static const char *shape(const node *n, tensor_spec *out, int *n_out) {
    const tensor *x = n->in[0];
    const op_attrs *attrs = &n->attrs;
    out[0] = spec_may_alias(n, 0);
    *n_out = 1;
    if (!is_matrix(x) || attrs->seq < 1 || x->dim[0] % attrs->seq) return "x must be rows of seq";
    if (!is_i32(n->in[1], 2 * (x->dim[0] / attrs->seq))) return "rows must be two words per row";
    if (!(attrs->rate >= 0 && attrs->rate < 1)) return "rate must be in [0, 1)";
    if (attrs->site < 0 || attrs->site >= 1 << 24) return "site must be below 2^24";
    return NULL;
}

static void grad(grad_ctx *ctx, node *n) {
    tensor *in[] = {grad_of(ctx, n->out[0]), n->in[1]};
    grad_add(ctx, n->in[0], graph_add(ctx->g, OP_dropout, 2, in, &n->attrs)->out[0]);
}

// Two rows of 90 elements: groups of random words begin and end inside.
static void rows_example(example *e) {
    static const int32_t rows[4] = {7, 0, -1, 3};
    tensor *in[] = {example_activation(e, "x", 6, 30), example_integers(e, "rows", 4, rows)};
    const op_attrs attrs = {.seq = 3, .rate = 0.25, .site = 5, .seed = 1234};
    graph_add(e->g, OP_dropout, 2, in, &attrs);
}

const op_row op_row_dropout = {
        .name = "dropout",
        .min_in = 2,
        .max_in = 2,
        .shape = shape,
        .attrs = ATTR(seq) | ATTR(rate) | ATTR(site) | ATTR(seed),
        .grad = grad,
        .cheap = true,
        .built = true,
        .differentiated = true,
        .examples = {rows_example},
};
