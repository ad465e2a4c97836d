// y_MK = x_MK / (1 - rate), or 0 with probability `rate` (arXiv:1207.0580; scaled as PyTorch's).
// dropout(x_MK, origin i32[3 N]) -> y. `origin` holds for each of N tokens the number of its row in
// the run, low word first, and its place in that row.
//
// The elements that are dropped are a function of {seed, row, site, element of the row}; `site`
// numbers the places in the model. So the mask is the same for any micro-batch size and layout of
// ranks, after recomputation and after a resume, and the gradient is the op itself. If ranks share
// x along an axis, each has a part of the tokens (dim 0) or of the columns (dim 1).
#include "ir/grad.h"

static const char *shape(const node *n, tensor_spec *out) {
    const tensor *x = n->in[0];
    const op_attrs *attrs = &n->attrs;
    const int64_t parts = attrs->mesh.ranks > 1 && attrs->mesh.dim == 0 ? attrs->mesh.ranks : 1;
    out[0] = spec_may_alias(n, 0);
    if (!is_matrix(x) || attrs->dropout.seq < 1 || parts * x->dim[0] % attrs->dropout.seq)
        return "x must be rows of seq";
    if (!is_i32(n->in[1], 3 * parts * x->dim[0])) return "origin must be three words per token";
    if (attrs->mesh.axis < 0 || attrs->mesh.axis >= N_AXES) return "the mesh has no such axis";
    if (attrs->mesh.dim < 0 || attrs->mesh.dim > 1) return "dim must be 0 or 1";
    if (!(attrs->dropout.rate >= 0 && attrs->dropout.rate < 1)) return "rate must be in [0, 1)";
    if (attrs->dropout.site < 0 || attrs->dropout.site >= 1 << 24) return "site must be below 2^24";
    return NULL;
}

static void grad(grad_ctx *ctx, node *n) {
    tensor *in[] = {grad_of(ctx, n->out[0]), n->in[1]};
    grad_add(ctx, n->in[0], graph_add(ctx->g, OP_dropout, 2, in, &n->attrs)->out[0]);
}

// Two rows of 90 elements: groups of random words begin and end inside.
static const int32_t example_origin[18] = {7, 0, 0, 7, 0, 1, 7, 0, 2, -1, 3, 0, -1, 3, 1, -1, 3, 2};

static const example_case examples[] =
        {{.in = {IN_ACTIVATION("x", 6, 30), IN_INTEGERS("origin", 18, example_origin)},
                 .attrs.dropout = {.seq = 3, .rate = 0.25, .site = 5, .seed = 1234}},
                {0}};

const op_row op_row_dropout = {
        .n_in = 2,
        .shape = shape,
        .attrs = ATTRS(ATTR(dropout, seq), ATTR(dropout, site), ATTR(dropout, rate),
                ATTR(dropout, seed), ATTR_RANKS, ATTR(mesh, dim)),
        .grad = grad,
        .cheap = true,
        .built = true,
        .examples = examples,
};
