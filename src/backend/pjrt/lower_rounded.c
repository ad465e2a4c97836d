// State kept in bf16 (ir/ops/rounded.c): the hash of base/stochastic.h in operations on whole
// numbers, the same bits as on the CPU.
#include "backend/pjrt/lower_adamw.h"
#include "ir/hyper.h"
#include "ir/rounding.h"

static hlo_value with_word(hlo_text *h, const char *op, hlo_value x, uint32_t word) {
    return hlo_binary(h, op, x, hlo_spread(h, hlo_whole(h, HLO_U32, word), &x));
}

static hlo_value shift_xor(hlo_text *h, hlo_value x, uint32_t bits) {
    return hlo_binary(h, "xor", x, with_word(h, "shift_right_logical", x, bits));
}

static hlo_value mix(hlo_text *h, hlo_value x) {
    x = with_word(h, "multiply", shift_xor(h, x, MIX_SHIFT1), MIX_FACTOR1);
    x = with_word(h, "multiply", shift_xor(h, x, MIX_SHIFT2), MIX_FACTOR2);
    return shift_xor(h, x, MIX_SHIFT3);
}

// --- which elements
typedef struct element_words { // of each element of a tensor
    hlo_value first, second;   // second: where it is wanted
} element_words;

typedef struct place_values {
    hlo_value words;                      // u32[N_PLACE_WORDS]
    hlo_value row;                        // of each element, on this rank
    hlo_value parts[PLACE_MAX_PARTS - 1]; // whether it lies in part 1, 2 (or after it)
} place_values;

static hlo_value word_of(hlo_text *h, const place_values *place, int word) {
    return hlo_reshape(h, hlo_slice(h, place->words, 0, word, 1), 0, NULL);
}

static hlo_value word_everywhere(hlo_text *h, const place_values *place, int word) {
    return hlo_spread(h, word_of(h, place, word), &place->row);
}

// What each element has of numbers that its part has, scalars.
static hlo_value by_part(hlo_text *h, const place_values *place,
        const hlo_value scalars[PLACE_MAX_PARTS]) {
    hlo_value all = hlo_spread(h, scalars[0], &place->row);
    for (int k = 1; k < PLACE_MAX_PARTS; k++)
        all = hlo_select(h, place->parts[k - 1], hlo_spread(h, scalars[k], &place->row), all);
    return all;
}

static hlo_value part_word(hlo_text *h, const place_values *place, int word) {
    hlo_value scalars[PLACE_MAX_PARTS];
    for (int k = 0; k < PLACE_MAX_PARTS; k++)
        scalars[k] = word_of(h, place, PLACE_PARTS + k * PART_WORDS + word);
    return by_part(h, place, scalars);
}

// Row and column of each element on this rank: of a matrix its own; a vector is a weight of one
// column, or a shard of any weight.
static void find_rows(hlo_text *h, const hlo_value *like, place_values *place, hlo_value *column) {
    const int last = like->n_dims - 1;
    hlo_value at = hlo_iota(h, HLO_U32, like->n_dims, like->dim, last);
    place->row = at; // for its shape
    if (last == 1) {
        *column = at;
        place->row = hlo_iota(h, HLO_U32, like->n_dims, like->dim, 0);
        return;
    }
    const hlo_value columns = word_everywhere(h, place, PLACE_COLUMNS);
    at = hlo_binary(h, "add", at, word_everywhere(h, place, PLACE_FIRST));
    *column = hlo_binary(h, "remainder", at, columns);
    place->row = hlo_binary(h, "divide", at, columns);
}

// The number of each element in its parameter of the model.
static hlo_value elements_of(hlo_text *h, const hlo_value *like, place_values *place) {
    hlo_value column;
    find_rows(h, like, place, &column);
    for (int k = 1; k < PLACE_MAX_PARTS; k++)
        place->parts[k - 1] = hlo_compare(h, "GE", place->row,
                word_everywhere(h, place, PLACE_PARTS + k * PART_WORDS + PART_ROW));
    const hlo_value here = hlo_binary(h, "subtract", place->row, part_word(h, place, PART_ROW)),
                    row = hlo_binary(h, "add", here, part_word(h, place, PART_FIRST_ROW));
    const hlo_value begin =
            hlo_binary(h, "multiply", row, word_everywhere(h, place, PLACE_ALL_COLUMNS));
    return hlo_binary(h, "add", hlo_binary(h, "add", begin, column),
            word_everywhere(h, place, PLACE_FIRST_COLUMN));
}

// The words of all elements in the shape of `like`; step: a u32 scalar.
static element_words words_of(hlo_text *h, hlo_value words, const hlo_value *like, int part_keys,
        hlo_value step, bool second) {
    place_values place = {.words = hlo_bitcast(h, words, HLO_U32)};
    const hlo_value element = elements_of(h, like, &place), mixed = mix(h, step);
    hlo_value a[PLACE_MAX_PARTS], b[PLACE_MAX_PARTS];
    for (int k = 0; k < PLACE_MAX_PARTS; k++) {
        const int at = PLACE_PARTS + k * PART_WORDS + part_keys;
        a[k] = mix(h, hlo_binary(h, "add", word_of(h, &place, at), mixed));
        b[k] = mix(h, hlo_binary(h, "xor", word_of(h, &place, at + 1), a[k]));
    }
    element_words made;
    made.first = mix(h, hlo_binary(h, "xor", element, by_part(h, &place, a)));
    made.second = made.first;
    if (second) made.second = mix(h, hlo_binary(h, "add", made.first, by_part(h, &place, b)));
    return made;
}

// x in fp32 to bf16, as f32_to_bf16_by. Whatever type is no bf16: x itself.
static hlo_value rounded(hlo_text *h, hlo_value x, hlo_value by, hlo_type type) {
    if (type != HLO_BF16) return x;
    const uint32_t top = 0x7F800000u;
    const hlo_value bits = hlo_bitcast(h, x, HLO_U32),
                    sum = hlo_binary(h, "add", bits, with_word(h, "and", by, 0xFFFF));
    const hlo_value tops = hlo_spread(h, hlo_whole(h, HLO_U32, top), &bits);
    const hlo_value finite = hlo_compare(h, "NE", with_word(h, "and", bits, top), tops),
                    grown = hlo_compare(h, "EQ", with_word(h, "and", sum, top), tops);
    const hlo_value cut = with_word(h, "and", hlo_select(h, grown, bits, sum), 0xFFFF0000u);
    return hlo_convert(h, hlo_select(h, finite, hlo_bitcast(h, cut, HLO_F32), x), HLO_BF16);
}

// --- adamw_rounded(p, m, v, g, norm2, hyper, place[, w])
static void adamw_rounded(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    hlo_value finite;
    const adamw_values made = lower_adamw(l, n, &finite);
    const hlo_value update = hlo_convert(h, lower_hyper(l, n, HYPER_UPDATE), HLO_U32);
    const element_words by = words_of(h, lower_in(l, n, 6), &made.p, PART_UPDATE, update, true);
    const hlo_value by_v = with_word(h, "shift_right_logical", by.first, 16);
    const hlo_value values[] = {made.p, made.m, made.v}, bits[] = {by.second, by.first, by_v};
    hlo_value kept[3];
    for (int i = 0; i < 3; i++) {
        const hlo_value old = lower_in(l, n, i);
        kept[i] = hlo_select(h, finite, rounded(h, values[i], bits[i], old.type), old);
        if (i > 0) lower_set(l, n, i, kept[i]);
    }
    lower_updated(l, n, kept[0]);
    const hlo_value g = lower_in(l, n, 3);
    lower_set(l, n, 3, hlo_fill(h, 0, &g));
    if (n->n_in == 8) lower_round(l, n, 4, kept[0]);
}

const lower_op lower_op_adamw_rounded = {.lower = adamw_rounded};

// --- sums of gradients
static void zeros(lowering *l, const node *n) {
    hlo_value like = lower_in(l, n, 0);
    like.type = lower_type(l, n->out[0]->dt);
    lower_set(l, n, 0, hlo_fill(&l->h, 0, &like));
}

const lower_op lower_op_zeros = {.lower = zeros};

// add_rounded(g, x, place, number)
static void add_rounded(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value x = lower_in(l, n, 1), number = hlo_bitcast(h, lower_in(l, n, 3), HLO_U32);
    const hlo_value low = hlo_reshape(h, hlo_slice(h, number, 0, 0, 1), 0, NULL),
                    high = hlo_reshape(h, hlo_slice(h, number, 0, 1, 1), 0, NULL);
    const hlo_value step = hlo_binary(h, "xor", low, mix(h, high));
    const hlo_value sum = hlo_binary(h, "add", lower_in_acc(l, n, 0, 1), x);
    const element_words by = words_of(h, lower_in(l, n, 2), &sum, PART_GRADIENT, step, false);
    lower_set(l, n, 0, rounded(h, sum, by.first, lower_in(l, n, 0).type));
}

const lower_op lower_op_add_rounded = {.lower = add_rounded};
