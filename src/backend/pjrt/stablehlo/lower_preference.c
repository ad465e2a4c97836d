// Prints preference and its gradient (ir/ops/preference.c): adds the losses of tokens by response,
// computes a row of a table for each pair, and gives every token the row of its pair.
// Legend: N tokens here, A on all ranks that share the rows; R responses, with index 2 pair +
// rejected; P pairs.
#include "backend/pjrt/stablehlo/lower_collective.h"
#include "base/round.h"

// Columns of the tables of responses and of pairs.
enum { LOSS, REFERENCE, N_SUMS };
enum { PAIR_LOSS, CHOSEN, REJECTED, RIGHT, LOG_CHOSEN, LOG_REJECTED, PULL, N_COLUMNS };
enum { N_SIDES = 2 };

// Take one column of a matrix; make a matrix of several vectors as columns.
static hlo_value column_of(hlo_text *h, hlo_value x, int column) {
    return hlo_reshape(h, hlo_slice(h, x, 1, column, 1), HLO_DIMS(x.dim[0]));
}
static hlo_value as_columns(hlo_text *h, const hlo_value *x, int n) {
    hlo_value column[N_COLUMNS];
    for (int i = 0; i < n; i++)
        column[i] = hlo_reshape(h, x[i], HLO_DIMS(x[i].dim[0], 1));
    return hlo_concat(h, column, n, 1);
}

// Converts a double, as low and high word, to f32: the exponent has another bias and 3 bits fewer,
// the fraction 29 fewer, rounded up if the first of those is set; 0 if f32 has no such exponent.
static hlo_value narrow_double(hlo_text *h, hlo_value low, hlo_value high) {
    enum { BIAS_APART = 1023 - 127, FRACTION = 20 };
    const hlo_value exponent =
            hlo_with(h, "and", hlo_with(h, "shift_right_logical", high, FRACTION), 0x7FF);
    const hlo_value top = hlo_with(h, "shift_left", hlo_with(h, "and", high, (1u << FRACTION) - 1),
                            3),
                    fraction =
                            hlo_binary(h, "or", top, hlo_with(h, "shift_right_logical", low, 29)),
                    up = hlo_with(h, "and", hlo_with(h, "shift_right_logical", low, 28), 1);
    const hlo_value moved =
            hlo_with(h, "shift_left", hlo_with(h, "subtract", exponent, BIAS_APART), FRACTION + 3);
    const hlo_value size = hlo_binary(h, "add", hlo_binary(h, "or", moved, fraction), up),
                    bits = hlo_binary(h, "or", size, hlo_with(h, "and", high, 1u << 31));
    const hlo_value least = hlo_fill(h, BIAS_APART, &exponent),
                    there = hlo_compare(h, "GT", exponent, least);
    return hlo_bitcast(h, hlo_select(h, there, bits, hlo_fill(h, 0, &bits)), HLO_F32);
}

// Converts [2 N] words, the low word of each double first, to [N] numbers.
static hlo_value numbers_of(lowering *l, hlo_value words) {
    hlo_text *h = &l->h;
    const hlo_value pairs = hlo_bitcast(h, hlo_reshape(h, words, HLO_DIMS(words.dim[0] / 2, 2)),
                            HLO_U32),
                    low = column_of(h, pairs, 0), high = column_of(h, pairs, 1);
    if (!l->options.has_f64) return narrow_double(h, low, high);
    const hlo_value above = hlo_convert(h, high, HLO_U64),
                    moved = hlo_binary(h, "shift_left", above, hlo_fill(h, 32, &above));
    return hlo_bitcast(h, hlo_binary(h, "or", moved, hlo_convert(h, low, HLO_U64)), HLO_F64);
}

// --- tokens
static hlo_value is_of_pair(hlo_text *h, hlo_value word) {
    return hlo_compare(h, "GE", word, hlo_fill(h, 0, &word));
}
// Returns whether the last n bits of a word are `last`; false for PAIR_NONE.
static hlo_value ends_in(hlo_text *h, hlo_value word, uint32_t n, uint32_t last) {
    const hlo_value end = hlo_with(h, "and", word, (1u << n) - 1);
    return hlo_binary(h, "and", is_of_pair(h, word),
            hlo_compare(h, "EQ", end, hlo_fill(h, last, &end)));
}
// Returns the word without its last bits, the index of a response or a pair; 0 for PAIR_NONE.
static hlo_value number_of(hlo_text *h, hlo_value word, uint32_t bits) {
    return hlo_select(h, is_of_pair(h, word), hlo_with(h, "shift_right_logical", word, bits),
            hlo_fill(h, 0, &word));
}

static hlo_value or_zero(hlo_text *h, hlo_value condition, hlo_value x) {
    return hlo_select(h, condition, x, hlo_fill(h, 0, &x));
}

static hlo_value of_all_ranks(lowering *l, const node *n, hlo_value x) {
    if (n->attrs.mesh.ranks <= 1) return x;
    return hlo_all_gather(&l->h, x, 0,
            lower_neighbours(l, (mesh_axis)n->attrs.mesh.axis, n->attrs.mesh.ranks));
}

// Returns [R, N_SUMS]: for each response the loss of its tokens, and the reference's
// log-probability.
static hlo_value sum_responses(lowering *l, hlo_value loss, hlo_value word, hlo_value reference) {
    hlo_text *h = &l->h;
    const hlo_value known[N_SUMS] = {[LOSS] = or_zero(h, is_of_pair(h, word), loss),
            [REFERENCE] = or_zero(h, ends_in(h, word, 1, 1), reference)};
    const hlo_value added = as_columns(h, known, N_SUMS);
    const hlo_value like = {.type = loss.type,
            .n_dims = 2,
            .dim = {round_up(word.dim[0], N_SIDES), N_SUMS}};
    return hlo_scatter_add_rows(h, hlo_fill(h, 0, &like), number_of(h, word, 1), added, false);
}

// --- pairs
// Returns the numbers of one side, chosen or rejected, from [R] responses.
static hlo_value side_of(hlo_text *h, hlo_value x, int side) {
    return column_of(h, hlo_reshape(h, x, HLO_DIMS(x.dim[0] / N_SIDES, N_SIDES)), side);
}

// (1 - smoothing) f(-margin) + sign smoothing f(margin)
static hlo_value smoothed(hlo_text *h, hlo_value of_minus, hlo_value of_margin, double smoothing,
        double sign) {
    return hlo_binary(h, "add", hlo_scale(h, of_minus, 1 - smoothing),
            hlo_scale(h, of_margin, sign * smoothing));
}

// As in ir/pair_loss.c: -log sigmoid(-x) = max(x, 0) + log(1 + exp(-|x|)).
static void put_loss(hlo_text *h, hlo_value margin, const op_attrs *attrs, hlo_value *of) {
    const hlo_value minus = hlo_unary(h, "negate", margin), none = hlo_fill(h, 0, &margin),
                    small = hlo_unary(h, "exponential", hlo_binary(h, "minimum", margin, minus)),
                    tail = hlo_unary(h, "log_plus_one", small);
    const hlo_value of_minus = hlo_binary(h, "add", hlo_binary(h, "maximum", minus, none), tail),
                    of_margin = hlo_binary(h, "add", hlo_binary(h, "maximum", margin, none), tail);
    of[PAIR_LOSS] = smoothed(h, of_minus, of_margin, attrs->preference.smoothing, 1);
    const hlo_value pull = smoothed(h, hlo_unary(h, "logistic", minus),
            hlo_unary(h, "logistic", margin), attrs->preference.smoothing, -1);
    of[PULL] = hlo_scale(h, pull, attrs->preference.beta);
}

// Computes [P, N_COLUMNS] from [R, N_SUMS].
static hlo_value judge_pairs(hlo_text *h, hlo_value sums, const op_attrs *attrs) {
    hlo_value of[N_COLUMNS];
    const hlo_value log_prob = hlo_unary(h, "negate", column_of(h, sums, LOSS)),
                    reward = hlo_scale(h,
                            hlo_binary(h, "subtract", log_prob, column_of(h, sums, REFERENCE)),
                            attrs->preference.beta);
    for (int side = 0; side < N_SIDES; side++) {
        of[CHOSEN + side] = side_of(h, reward, side);
        of[LOG_CHOSEN + side] = side_of(h, log_prob, side);
    }
    of[RIGHT] = hlo_convert(h, hlo_compare(h, "GT", of[CHOSEN], of[REJECTED]), of[CHOSEN].type);
    put_loss(h, hlo_binary(h, "subtract", of[CHOSEN], of[REJECTED]), attrs, of);
    return as_columns(h, of, N_COLUMNS);
}

// A pair is counted at the head of its chosen response.
static void set_sums(lowering *l, const node *n, hlo_value word, hlo_value of_token) {
    hlo_text *h = &l->h;
    const hlo_value counts = ends_in(h, word, 2, 1);
    hlo_value own[N_COLUMNS], sum[N_COLUMNS];
    for (int i = 0; i < PULL; i++)
        own[i] = or_zero(h, counts, column_of(h, of_token, i));
    for (int i = PAIR_LOSS; i <= RIGHT; i++)
        sum[i] = hlo_reshape(h, hlo_reduce_all(h, "add", own[i]), HLO_DIMS(1));
    lower_set(l, n, 0, sum[PAIR_LOSS]);
    lower_set(l, n, 1, hlo_concat(h, &sum[CHOSEN], 3, 0));
    lower_set(l, n, 2,
            hlo_reshape(h, as_columns(h, &own[LOG_CHOSEN], N_SIDES),
                    HLO_DIMS(N_SIDES * word.dim[0])));
}

// inputs: token_loss, pair, reference[, dloss]; outputs: loss, figures, log_probs[, dtoken_loss]
static void preference(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value word = lower_in(l, n, 1), loss = of_all_ranks(l, n, lower_in(l, n, 0)),
                    words = of_all_ranks(l, n, word),
                    reference = of_all_ranks(l, n, lower_in(l, n, 2));
    const hlo_value sums = sum_responses(l, loss, words, numbers_of(l, reference));
    const hlo_value of_token =
            hlo_gather_rows(h, judge_pairs(h, sums, &n->attrs), number_of(h, word, 2));
    set_sums(l, n, word, of_token);
    if (n->op != OP_preference_grad) return;
    const hlo_value pull = column_of(h, of_token, PULL),
                    scale = hlo_reshape(h, lower_in(l, n, 3), 0, NULL);
    const hlo_value up = hlo_binary(h, "multiply", pull, hlo_spread(h, scale, &pull)),
                    rejected = hlo_compare(h, "NE", hlo_with(h, "and", word, 2),
                            hlo_fill(h, 0, &word));
    const hlo_value either = hlo_select(h, rejected, hlo_unary(h, "negate", up), up);
    lower_set(l, n, 3, or_zero(h, is_of_pair(h, word), either));
}

const lower_op lower_op_preference = {.lower = preference};
const lower_op lower_op_preference_grad = {.lower = preference};
