// Rows of a data set, or of what is scored, and their way into the back end.
#include "weights/batch.h"

#include <stdio.h>
#include <string.h>

#include "base/bus_error.h"

drv_status batch_open_rows(arena *mem, const run_config *cfg, bool train, int64_t stride,
        rows **out) {
    static const rows_packing packings[] = {[PACK_AUTO] = PACKING_AUTO,
            [PACK_DOCUMENTS] = PACKING_DOCUMENTS,
            [PACK_STREAM] = PACKING_STREAM,
            [PACK_EXAMPLES] = PACKING_EXAMPLES};
    static const rows_loss losses[] = {[COUNT_AUTO] = LOSS_AUTO,
            [COUNT_RESPONSES] = LOSS_RESPONSES,
            [COUNT_LAST] = LOSS_LAST,
            [COUNT_ALL] = LOSS_ALL};
    const double total = cfg->split[0] + cfg->split[1] + cfg->split[2];
    const bool split = total > 0 && cfg->n_valid == 0;
    const data_source *list = train || split ? cfg->train : cfg->valid;
    rows_opts o = {.n_sources = train || split ? cfg->n_train : cfg->n_valid,
            .row_tokens = cfg->sequence_length,
            .n_vocab = cfg->model.vocab_size,
            .seed = (uint64_t)cfg->seed,
            .shuffle = train,
            .packing = packings[cfg->pack],
            .loss = losses[cfg->loss],
            .drop_long = cfg->too_long == LONG_DROP,
            .stride = stride,
            .part = train ? PART_TRAIN : PART_VALID};
    if (split) memcpy(o.split, cfg->split, sizeof o.split);
    row_source_spec *sources = ARENA_ARRAY(mem, row_source_spec, o.n_sources + 1);
    for (int i = 0; i < o.n_sources; i++)
        sources[i] = (row_source_spec){list[i].prefix, list[i].weight};
    o.sources = sources;
    return rows_open(mem, &o, out);
}

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

void batch_clear(batch *b) {
    b->filled = b->counted = 0;
    str_clear(&b->names);
}

typedef struct adding {
    batch *b;
    rows *r;
} adding;

static drv_status add_row(void *ctx) {
    const adding *x = ctx;
    batch *b = x->b;
    const int64_t at = b->filled * b->row_tokens, n = b->zigzag.tokens;
    int64_t counted = 0; // of the whole row
    if (!b->row)
        return rows_next(x->r, b->tokens + at, b->position + at, b->labels + at, &b->counted);
    DRV_TRY(rows_next(x->r, b->row, b->row + n, b->row + 2 * n, &counted));
    batch_put_row(b, b->row, b->row + n, b->row + 2 * n);
    return DRV_OK;
}

void batch_put_row(batch *b, const int32_t *tokens, const int32_t *position,
        const int32_t *labels) {
    const int64_t u = zigzag_chunk_tokens(&b->zigzag), micro_batch = b->filled / b->micro,
                  before = micro_batch * b->micro * b->row_tokens;
    for (int i = 0; i < zigzag_chunks(&b->zigzag); i++) {
        const int64_t from = zigzag_chunk(&b->zigzag, b->place, i) * u,
                      at = before + zigzag_token(&b->zigzag, b->micro, b->filled % b->micro, i);
        const size_t bytes = sizeof *tokens * (size_t)u;
        memcpy(b->tokens + at, tokens + from, bytes);
        memcpy(b->position + at, position + from, bytes);
        memcpy(b->labels + at, labels + from, bytes);
        for (int64_t k = 0; k < u; k++)
            b->counted += b->labels[at + k] >= 0;
    }
}

drv_status batch_add_row(batch *b, rows *r) {
    enum { MAX_NAMES = 8 };
    DRV_ASSERT(b->filled < b->rows, "row %lld", (long long)b->filled);
    DRV_TRY(bus_error_guard(add_row, &(adding){b, r}, "the index of a data set"));
    if (b->filled < MAX_NAMES) str_printf(&b->names, "%s%s", b->filled ? ", " : "", rows_last(r));
    if (b->filled == MAX_NAMES) str_puts(&b->names, ", ...");
    b->filled++;
    b->rows_taken = rows_taken(r);
    return DRV_OK;
}

void batch_pad(batch *b) {
    const int64_t n = b->zigzag.tokens;
    for (; b->filled < b->rows; b->filled++) {
        const int64_t first = b->filled * b->row_tokens;
        int32_t *tokens = b->row ? b->row : b->tokens + first,
                *position = b->row ? b->row + n : b->position + first,
                *labels = b->row ? b->row + 2 * n : b->labels + first;
        for (int64_t i = 0; i < n; i++) {
            tokens[i] = 0;
            position[i] = (int32_t)i;
            labels[i] = -1;
        }
        if (b->row) batch_put_row(b, tokens, position, labels);
    }
}

drv_status batch_write_rows(const batch *b, held_model *p, program_input which, int chunk,
        int64_t to, int64_t first, int64_t n) {
    const int32_t *const arrays[] =
            {[INPUT_TOKENS] = b->tokens, [INPUT_POSITION] = b->position, [INPUT_LABELS] = b->labels};
    const int64_t row_bytes = b->row_tokens * (int64_t)sizeof **arrays;
    const input_name name = input_name_of(which, chunk);
    for (int rank = 0; rank < p->b->n_local_ranks; rank++)
        DRV_TRY(backend_write(p->b, rank, name.text, to * row_bytes, n * row_bytes,
                arrays[which] + first * b->row_tokens));
    return DRV_OK;
}

int64_t batch_index(const batch *b, int64_t m) {
    return b->first_micro + m * b->every_micro;
}
