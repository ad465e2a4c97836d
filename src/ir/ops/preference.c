// Direct preference optimisation (arXiv:2305.18290, eq. 7, with the label smoothing of its authors'
// "conservative DPO", as TRL has it), of the pairs that lie in the rows of a micro-batch.
//   margin = beta ((log p(chosen) - log r(chosen)) - (log p(rejected) - log r(rejected)))
//   loss   = sum over pairs of  -(1 - smoothing) log sigmoid(margin) - smoothing log
//   sigmoid(-margin)
// preference(token_loss f64[N], pair i32[N], reference i32[2 N])
//   -> loss f64[S], figures f64[3 S], log_probs f64[2 N].
// p is the model, whose log p(response) is minus the sum of the losses of the tokens that predict
// it; r the reference, whose log r(response) stands at the head of each, a double in two words, low
// word first. `pair` says which pair and response a token is of (ir/pair_word.h). Sums over
// tokens are exact (base/exact_sum.h), so that no layout changes a bit. S sums over tokens
// (ir/token_sums.h): a pair counts in that in which the head of its chosen response lies. `figures`
// holds of each sum the rewards beta (log p - log r) of the chosen responses and of the rejected
// ones, and how many pairs have the greater reward on the chosen side. `log_probs` has log p of
// both responses at the head of the chosen one, else zeros. With `ranks`, which share the rows,
// each has N of their tokens, and tells the others what is to be known of them, 32 bytes each.
#include "ir/grad.h"
#include "ir/token_sums.h"
#include "ir/wire.h"

enum { PAIR_FIGURES = 3, TOLD_BYTES = 32 };

static const char *check(const node *n) {
    const int64_t n_tokens = n->in[0]->dim[0];
    if (!is_f64(n->in[0], n_tokens)) return "token_loss must be f64[N]";
    if (!is_i32(n->in[1], n_tokens)) return "pair must be i32[N]";
    if (!is_i32(n->in[2], 2 * n_tokens)) return "reference must be i32[2 N]";
    if (n_tokens % sums_of_tokens(&n->attrs))
        return "row_blocks and partial_sums must divide the tokens";
    if (!(n->attrs.preference.beta > 0)) return "beta must be positive";
    if (!(n->attrs.preference.smoothing >= 0 && n->attrs.preference.smoothing < 0.5))
        return "smoothing must be in [0, 0.5)";
    return NULL;
}

static const char *shape(const node *n, tensor_spec *out) {
    const int64_t sums = sums_of_tokens(&n->attrs);
    out[0] = spec_1d(DT_F64, sums);
    out[1] = spec_1d(DT_F64, PAIR_FIGURES * sums);
    out[2] = spec_1d(DT_F64, 2 * n->in[0]->dim[0]);
    return check(n);
}

static double wire(const node *n) {
    if (n->attrs.mesh.ranks <= 1) return 0;
    return wire_gather((double)TOLD_BYTES * (double)n->in[0]->dim[0], n->attrs.mesh.ranks);
}

// As with the loss of tokens, one op gives the loss and its gradient.
static void grad(grad_ctx *ctx, node *n) {
    tensor *in[] = {n->in[0], n->in[1], n->in[2], grad_of(ctx, n->out[0])};
    node *made = graph_add(ctx->g, OP_preference_grad, 4, in, &n->attrs);
    for (int o = 0; o < n->n_out; o++)
        grad_replace(ctx, n->out[o], made->out[o]);
    grad_add(ctx, n->in[0], made->out[n->n_out]);
}

enum { EXAMPLE_TOKENS = 6 };
// Two pairs, one after the other: 0: chosen, rejected; 1: two tokens chosen, one rejected.
static const int32_t two_pairs[EXAMPLE_TOKENS] = {0 << 2 | 1, 0 << 2 | 3, -1, 1 << 2 | 1, 1 << 2,
        1 << 2 | 3};
// One pair over both halves of the tokens.
static const int32_t across[EXAMPLE_TOKENS] = {0 << 2 | 1, 0 << 2 | 3, -1, 0 << 2, 0 << 2 | 2,
        0 << 2 | 2};
// -1.5, -2.25, none, -3.5, none, -1.5
static const int32_t example_reference[2 * EXAMPLE_TOKENS] = {0, -1074266112, 0, -1073610752, 0, 0,
        0, -1072955392, 0, 0, 0, -1074266112};
// -1.5, -2.25
static const int32_t across_reference[2 * EXAMPLE_TOKENS] = {0, -1074266112, 0, -1073610752};

static const op_attr row_attrs[] = {ATTR(preference, beta), ATTR(preference, smoothing), ATTR_RANKS,
        ATTR(sum, row_blocks), ATTR(sum, partial_sums), {0}};

#define IN_PAIRS(pair, reference)                                                                  \
    IN_INTEGERS("pair", EXAMPLE_TOKENS, pair),                                                     \
            IN_INTEGERS("reference", 2 * EXAMPLE_TOKENS, reference)
#define IN_LOSSES_OF(pair, reference)                                                              \
    { IN_LOSSES("token_loss", EXAMPLE_TOKENS), IN_PAIRS(pair, reference) }
static const example_case examples[] = {{.in = IN_LOSSES_OF(two_pairs, example_reference),
                                                .attrs.preference.beta = 0.5},
        {.in = IN_LOSSES_OF(two_pairs, example_reference),
                .attrs = {.preference = {.beta = 0.5, .smoothing = 0.125}, .sum.partial_sums = 2}},
        {.in = IN_LOSSES_OF(across, across_reference),
                .attrs = {.preference.beta = 0.5, .sum.row_blocks = 2}},
        {0}};

const op_row op_row_preference = {
        .n_in = 3,
        .shape = shape,
        .grad = grad,
        .wire = wire,
        .built = true,
        .attrs = row_attrs,
        .n_statistics = 2,
        .examples = examples,
};

// --- preference_grad(token_loss, pair, reference, dloss) -> loss, figures, log_probs, dtoken_loss
static const char *grad_shape(const node *n, tensor_spec *out) {
    const char *bad = shape(n, out);
    out[3] = spec_1d(DT_F64, n->in[0]->dim[0]);
    if (!is_f64(n->in[3], sums_of_tokens(&n->attrs))) return "dloss must be like the loss";
    return bad;
}

#define IN_GRAD_OF(pair, reference, n_sums)                                                        \
    {                                                                                              \
        IN_STATE(TENSOR_INPUT, EXAMPLE_F64, 0.5, 3, "token_loss", EXAMPLE_TOKENS),                 \
                IN_PAIRS(pair, reference),                                                         \
                IN_STATE(TENSOR_INPUT, EXAMPLE_F64, 0.5, 1, "dloss", n_sums)                       \
    }
static const example_case grad_examples[] = {{.in = IN_GRAD_OF(two_pairs, example_reference, 1),
                                                     .attrs.preference = {.beta = 0.5,
                                                             .smoothing = 0.125}},
        {.in = IN_GRAD_OF(two_pairs, example_reference, 2),
                .attrs = {.preference.beta = 0.5, .sum.partial_sums = 2}},
        {.in = IN_GRAD_OF(across, across_reference, 2),
                .attrs = {.preference = {.beta = 0.5, .smoothing = 0.125}, .sum.row_blocks = 2}},
        {0}};

const op_row op_row_preference_grad = {
        .n_in = 4,
        .shape = grad_shape,
        .wire = wire,
        .attrs = row_attrs,
        .examples = grad_examples,
};
