// Prints updates of state kept in bf16 (ir/ops/rounded.c): computes the hash of base/stochastic.h
// with integer operations, to the bit as the CPU does.
#include "backend/pjrt/stablehlo/lower_adamw.h"
#include "ir/hyper.h"
#include "ir/rounding.h"

static hlo_value shift_xor(hlo_text *h, hlo_value x, uint32_t bits) {
    return hlo_binary(h, "xor", x, hlo_with(h, "shift_right_logical", x, bits));
}

static hlo_value mix(hlo_text *h, hlo_value x) {
    x = hlo_with(h, "multiply", shift_xor(h, x, MIX_SHIFT1), MIX_FACTOR1);
    x = hlo_with(h, "multiply", shift_xor(h, x, MIX_SHIFT2), MIX_FACTOR2);
    return shift_xor(h, x, MIX_SHIFT3);
}

// --- indices of elements
typedef struct element_words { // hash words of each element of a tensor
    hlo_value first, second;   // second: if it is wanted
} element_words;

typedef struct extent_values {
    hlo_value words;                       // u32[N_EXTENT_WORDS]
    hlo_value row;                         // row of each element on this rank
    hlo_value parts[EXTENT_MAX_PARTS - 1]; // whether an element is in part 1, 2 (or a later one)
} extent_values;

static hlo_value word_everywhere(hlo_text *h, const extent_values *extent, int word) {
    return hlo_spread(h, hlo_element(h, extent->words, word), &extent->row);
}

// Returns a word of each part: u32[EXTENT_MAX_PARTS].
static hlo_value part_words(hlo_text *h, const extent_values *extent, int word) {
    hlo_value all = hlo_slice(h, extent->words, 0, EXTENT_PARTS, EXTENT_MAX_PARTS * PART_WORDS);
    all = hlo_reshape(h, all, HLO_DIMS(EXTENT_MAX_PARTS, PART_WORDS));
    return hlo_reshape(h, hlo_slice(h, all, 1, word, 1), HLO_DIMS(EXTENT_MAX_PARTS));
}

// Spreads a number of each part to the part's elements.
static hlo_value by_part(hlo_text *h, const extent_values *extent, hlo_value parts) {
    hlo_value all = hlo_spread(h, hlo_element(h, parts, 0), &extent->row);
    for (int k = 1; k < EXTENT_MAX_PARTS; k++)
        all = hlo_select(h, extent->parts[k - 1],
                hlo_spread(h, hlo_element(h, parts, k), &extent->row), all);
    return all;
}

// Finds row and column of each element on this rank. A vector counts as one column: it may be a
// weight or a shard of one.
static void find_rows(hlo_text *h, const hlo_value *like, extent_values *extent,
        hlo_value *column) {
    const int last = like->n_dims - 1;
    hlo_value element = hlo_iota(h, HLO_U32, like->n_dims, like->dim, last);
    extent->row = element; // for its shape
    if (last == 1) {
        *column = element;
        extent->row = hlo_iota(h, HLO_U32, like->n_dims, like->dim, 0);
        return;
    }
    const hlo_value columns = word_everywhere(h, extent, EXTENT_COLUMNS);
    element = hlo_binary(h, "add", element, word_everywhere(h, extent, EXTENT_FIRST));
    *column = hlo_binary(h, "remainder", element, columns);
    extent->row = hlo_binary(h, "divide", element, columns);
}

// Returns the index of each element in its parameter of the model.
static hlo_value elements_of(hlo_text *h, const hlo_value *like, extent_values *extent) {
    hlo_value column;
    find_rows(h, like, extent, &column);
    const hlo_value first = part_words(h, extent, PART_ROW),
                    moved = hlo_binary(h, "subtract", part_words(h, extent, PART_FIRST_ROW), first);
    for (int k = 1; k < EXTENT_MAX_PARTS; k++)
        extent->parts[k - 1] = hlo_compare(h, "GE", extent->row,
                hlo_spread(h, hlo_element(h, first, k), &extent->row));
    const hlo_value row = hlo_binary(h, "add", extent->row, by_part(h, extent, moved));
    const hlo_value begin =
            hlo_binary(h, "multiply", row, word_everywhere(h, extent, EXTENT_ALL_COLUMNS));
    return hlo_binary(h, "add", hlo_binary(h, "add", begin, column),
            word_everywhere(h, extent, EXTENT_FIRST_COLUMN));
}

// Returns the words of all elements, in the shape of `like`; step: a u32 scalar, mixed already.
static element_words words_of(hlo_text *h, hlo_value words, const hlo_value *like, int part_keys,
        hlo_value step, bool second) {
    extent_values extent = {.words = hlo_bitcast(h, words, HLO_U32)};
    const hlo_value element = elements_of(h, like, &extent);
    const hlo_value key = part_words(h, &extent, part_keys),
                    a = mix(h, hlo_binary(h, "add", key, hlo_spread(h, step, &key)));
    element_words made;
    made.first = mix(h, hlo_binary(h, "xor", element, by_part(h, &extent, a)));
    made.second = made.first;
    if (second) {
        const hlo_value b = mix(h, hlo_binary(h, "xor", part_words(h, &extent, part_keys + 1), a));
        made.second = mix(h, hlo_binary(h, "add", made.first, by_part(h, &extent, b)));
    }
    return made;
}

// Rounds x from fp32 to bf16, as f32_to_bf16_by does; returns x itself for any other type.
static hlo_value rounded(hlo_text *h, hlo_value x, hlo_value by, hlo_type type) {
    if (type != HLO_BF16) return x;
    const uint32_t top = 0x7F800000u;
    const hlo_value bits = hlo_bitcast(h, x, HLO_U32),
                    sum = hlo_binary(h, "add", bits, hlo_with(h, "and", by, 0xFFFF));
    const hlo_value tops = hlo_spread(h, hlo_whole(h, HLO_U32, top), &bits);
    const hlo_value finite = hlo_compare(h, "NE", hlo_with(h, "and", bits, top), tops),
                    grown = hlo_compare(h, "EQ", hlo_with(h, "and", sum, top), tops);
    const hlo_value cut = hlo_with(h, "and", hlo_select(h, grown, bits, sum), 0xFFFF0000u);
    return hlo_convert(h, hlo_select(h, finite, hlo_bitcast(h, cut, HLO_F32), x), HLO_BF16);
}

// Computes the step's word once for all weights, like the numbers of the update (lower_update.c),
// but without their barrier, with which XLA orders the iterations so that they need a third more
// memory. `of` is the tensor from which `step` gets the word before mixing.
static hlo_value mixed_once(lowering *l, const tensor *of,
        hlo_value (*step)(hlo_text *, hlo_value)) {
    hlo_text *h = &l->h;
    if (l->step_word_of != of) {
        l->step_word = mix(h, step(h, l->values[of->id]));
        l->step_word_of = of;
    }
    return l->step_word;
}

// --- adamw_rounded(p, m, v, g, norm2, hyper, extent[, w])
static hlo_value step_of_update(hlo_text *h, hlo_value hyper) {
    return hlo_convert(h, hlo_element(h, hyper, HYPER_UPDATE), HLO_U32);
}

static void adamw_rounded(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const adamw_values made = lower_adamw(l, n);
    const hlo_value update = mixed_once(l, n->in[5], step_of_update);
    const element_words by = words_of(h, lower_in(l, n, 6), &made.p, PART_UPDATE, update, true);
    const hlo_value by_v = hlo_with(h, "shift_right_logical", by.first, 16);
    const hlo_value values[] = {made.p, made.m, made.v}, bits[] = {by.second, by.first, by_v};
    hlo_value kept[3];
    for (int i = 0; i < 3; i++) {
        const hlo_value old = lower_in(l, n, i);
        kept[i] = hlo_select(h, made.finite, rounded(h, values[i], bits[i], old.type), old);
        if (i > 0) lower_set(l, n, i, kept[i]);
    }
    lower_updated(l, n, kept[0]);
    lower_set(l, n, 3, made.g);
    if (n->n_in == 8) lower_round(l, n, 4, kept[0]);
}

const lower_op lower_op_adamw_rounded = {.lower = adamw_rounded};

// --- sums of gradients
static void zeros(lowering *l, const node *n) {
    const hlo_value like = lower_like(l, n->out[0]);
    lower_set(l, n, 0, hlo_fill(&l->h, 0, &like));
}

const lower_op lower_op_zeros = {.lower = zeros};

// add_rounded(g, x, extent, number)
static hlo_value step_of_gradient(hlo_text *h, hlo_value number) {
    const hlo_value words = hlo_bitcast(h, number, HLO_U32);
    return hlo_binary(h, "xor", hlo_element(h, words, 0), mix(h, hlo_element(h, words, 1)));
}

static void add_rounded(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value x = lower_in(l, n, 1), step = mixed_once(l, n->in[3], step_of_gradient);
    const hlo_value sum = hlo_binary(h, "add", lower_in_acc(l, n, 0, 1), x);
    const element_words by = words_of(h, lower_in(l, n, 2), &sum, PART_GRADIENT, step, false);
    lower_set(l, n, 0, rounded(h, sum, by.first, lower_in(l, n, 0).type));
}

const lower_op lower_op_add_rounded = {.lower = add_rounded};
