// Lays out the rows of a batch, whole or the part of a rank.
#include "data/set/batch.h"

#include <string.h>

#include "ir/pair_word.h"

batch batch_new(arena *a, int64_t n_rows, int64_t row_tokens) {
    const int64_t n = n_rows * row_tokens;
    return (batch){.rows = n_rows,
            .row_tokens = row_tokens,
            .zigzag = {1, 1, row_tokens},
            .micro = n_rows,
            .every_micro = 1,
            .tokens = ARENA_ARRAY(a, int32_t, n),
            .position = ARENA_ARRAY(a, int32_t, n),
            .labels = ARENA_ARRAY(a, int32_t, n)};
}

void batch_add_hidden(arena *a, batch *b) {
    b->hidden = ARENA_ARRAY(a, int32_t, 2 * b->rows * b->row_tokens);
}

void batch_add_pairs(arena *a, batch *b) {
    const int64_t n = b->rows * b->row_tokens;
    if (!b->hidden) batch_add_hidden(a, b);
    b->pair = ARENA_ARRAY(a, int32_t, n);
    b->reference = ARENA_ARRAY(a, int32_t, 2 * n);
    b->number = ARENA_ARRAY(a, int64_t, b->rows * (b->zigzag.tokens / 2));
}

void batch_clear(batch *b) {
    b->filled = b->counted = b->pairs = 0;
    str_clear(&b->names);
}

// Returns the arrays for the next whole row. If ranks divide rows, labels and pairs are counted
// when this rank's part is copied.
static row_out place_of_row(batch *b, int64_t ignored[2]) {
    const int64_t at = b->filled * b->row_tokens, n = b->zigzag.tokens;
    row_out out = {.tokens = b->row ? b->row : b->tokens + at,
            .position = b->row ? b->row + n : b->position + at,
            .labels = b->row ? b->row + 2 * n : b->labels + at,
            .counted = b->row ? &ignored[0] : &b->counted,
            .pairs = b->row ? &ignored[1] : &b->pairs};
    if (!b->pair) return out;
    out.pair = b->row ? b->row + 3 * n : b->pair + at;
    out.reference = b->row ? b->row + 4 * n : b->reference + 2 * at;
    out.hidden = b->row ? b->row + 6 * n : b->hidden + 2 * at;
    out.number = b->number + b->filled * (n / 2);
    return out;
}

// Numbers the pairs in the words of n tokens within the micro-batch instead of within the row.
static void number_pairs(const batch *b, int32_t *pair, int64_t n) {
    const int64_t first = b->filled % b->micro * (b->zigzag.tokens / 2);
    for (int64_t i = 0; i < n && pair; i++)
        if (pair[i] != PAIR_NONE) pair[i] += pair_word(first, false, false);
}

// Copies n tokens of a row, `width` numbers each, to index `at` of an array of the batch.
static void put_tokens(int32_t *to, const int32_t *row, int64_t at, int64_t from, int64_t n,
        int width) {
    if (to) memcpy(to + width * at, row + width * from, sizeof *to * (size_t)(width * n));
}

void batch_put_row(batch *b, const row_out *row) {
    const int64_t u = zigzag_chunk_tokens(&b->zigzag), micro_batch = b->filled / b->micro,
                  before = micro_batch * b->micro * b->row_tokens;
    for (int i = 0; i < zigzag_chunks(&b->zigzag); i++) {
        const int64_t from = zigzag_chunk(&b->zigzag, b->place, i) * u,
                      at = before + zigzag_token(&b->zigzag, b->micro, b->filled % b->micro, i);
        put_tokens(b->tokens, row->tokens, at, from, u, 1);
        put_tokens(b->position, row->position, at, from, u, 1);
        put_tokens(b->labels, row->labels, at, from, u, 1);
        put_tokens(b->pair, row->pair, at, from, u, 1);
        put_tokens(b->reference, row->reference, at, from, u, 2);
        put_tokens(b->hidden, row->hidden, at, from, u, 2);
        number_pairs(b, b->pair ? b->pair + at : NULL, u);
        for (int64_t k = at; k < at + u; k++) {
            b->counted += b->labels[k] >= 0;
            b->pairs += b->pair && pair_is_head(b->pair[k]) && !pair_is_rejected(b->pair[k]);
        }
    }
}

// Settles a row that place_of_row laid out.
static void settle_row(batch *b, const row_out *row) {
    if (b->row)
        batch_put_row(b, row);
    else
        number_pairs(b, row->pair, b->row_tokens);
}

drv_status batch_add_row(batch *b, rows *r) {
    enum { MAX_NAMES = 8 };
    DRV_ASSERT(b->filled < b->rows, "row %lld", (long long)b->filled);
    int64_t ignored[2] = {0};
    const row_out row = place_of_row(b, ignored);
    DRV_TRY(rows_next(r, &row));
    settle_row(b, &row);
    if (b->filled < MAX_NAMES) str_printf(&b->names, "%s%s", b->filled ? ", " : "", rows_last(r));
    if (b->filled == MAX_NAMES) str_puts(&b->names, ", ...");
    b->filled++;
    b->rows_taken = rows_taken(r);
    return DRV_OK;
}

void batch_make_row(batch *b, row_maker make, void *ctx) {
    int64_t ignored[2];
    const row_out row = place_of_row(b, ignored);
    make(ctx, &row);
    settle_row(b, &row);
    b->filled++;
}

static void make_padding(void *ctx, const row_out *row) {
    const batch *b = ctx;
    for (int64_t i = 0; i < b->zigzag.tokens; i++) {
        row->tokens[i] = 0;
        row->position[i] = (int32_t)i;
        row->labels[i] = -1;
        if (!row->pair) continue;
        row->pair[i] = PAIR_NONE;
        row->reference[2 * i] = row->reference[2 * i + 1] = 0;
        row->hidden[2 * i] = row->hidden[2 * i + 1] = 0;
    }
}

void batch_pad(batch *b) {
    while (b->filled < b->rows)
        batch_make_row(b, make_padding, b);
}

const int32_t *batch_values(const batch *b, program_input which, int64_t first) {
    const int32_t *const arrays[] = {[INPUT_TOKENS] = b->tokens,
            [INPUT_POSITION] = b->position,
            [INPUT_LABELS] = b->labels,
            [INPUT_PAIR] = b->pair,
            [INPUT_REFERENCE] = b->reference,
            [INPUT_HIDDEN] = b->hidden};
    return arrays[which] + first * program_inputs[which].per_token * b->row_tokens;
}

int64_t batch_bytes(const batch *b, program_input which, int64_t n) {
    return n * program_inputs[which].per_token * b->row_tokens * (int64_t)sizeof(int32_t);
}

int64_t batch_index(const batch *b, int64_t m) {
    return b->first_micro + m * b->every_micro;
}
