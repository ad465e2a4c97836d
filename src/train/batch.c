// Global batches, read ahead, and their way into the back end.
#include "train/batch.h"

#include <stdio.h>
#include <string.h>

#include "base/bus_error.h"
#include "base/log.h"
#include "train/zero.h"

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
            .cut = {1, 1, row_tokens},
            .micro = n_rows,
            .every_micro = 1,
            .tokens = ARENA_ARRAY(a, int32_t, n),
            .position = ARENA_ARRAY(a, int32_t, n),
            .labels = ARENA_ARRAY(a, int32_t, n)};
}

batch batch_of_run(arena *a, const run_config *cfg, int64_t n_rows) {
    const mesh m = programs_mesh(cfg);
    batch b = batch_new(a, n_rows, programs_row_tokens(cfg));
    b.cut = programs_cut(cfg);
    b.place = mesh_place(&m, (int)cfg->rank, AXIS_CONTEXT);
    b.micro = cfg->micro_batch_size;
    if (zigzag_leaves(&b.cut) > 1) b.row = ARENA_ARRAY(a, int32_t, 3 * b.cut.tokens);
    return b;
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
    const int64_t at = b->filled * b->row_tokens, n = b->cut.tokens;
    int64_t counted = 0; // of the whole row
    if (!b->row)
        return rows_next(x->r, b->tokens + at, b->position + at, b->labels + at, &b->counted);
    DRV_TRY(rows_next(x->r, b->row, b->row + n, b->row + 2 * n, &counted));
    batch_put_row(b, b->row, b->row + n, b->row + 2 * n);
    return DRV_OK;
}

void batch_put_row(batch *b, const int32_t *tokens, const int32_t *position,
        const int32_t *labels) {
    const int64_t u = zigzag_chunk_tokens(&b->cut), micro_batch = b->filled / b->micro,
                  before = micro_batch * b->micro * b->row_tokens;
    for (int i = 0; i < zigzag_chunks(&b->cut); i++) {
        const int64_t from = zigzag_chunk(&b->cut, b->place, i) * u,
                      at = before + zigzag_token(&b->cut, b->micro, b->filled % b->micro, i);
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
    const int64_t n = b->cut.tokens;
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

// Rows of the batch from `first`, n of them, to the inputs that begin with `prefix`.
static drv_status write_inputs(const batch *b, programs *p, const char *prefix, int64_t first,
        int64_t n) {
    const struct {
        const char *name;
        const int32_t *from;
    } inputs[] = {{"tokens", b->tokens}, {"position", b->position}, {"labels", b->labels}};
    const int64_t at = first * b->row_tokens, bytes = n * b->row_tokens * 4;
    char name[32];
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, inputs[i].name);
        for (int rank = 0; rank < p->b->n_local_ranks; rank++)
            DRV_TRY(backend_write(p->b, rank, name, 0, bytes, inputs[i].from + at));
    }
    return DRV_OK;
}

int64_t batch_index(const batch *b, int64_t m) {
    return b->first_micro + m * b->every_micro;
}

drv_status batch_write(const batch *b, programs *p, int64_t m) {
    const int64_t n = p->c->micro_batch_size;
    return write_inputs(b, p, "", m * n, n);
}

drv_status batch_write_stage(const batch *b, programs *p, int chunk, int slot, int64_t m) {
    const int64_t n = p->c->micro_batch_size * b->row_tokens, at = m * n, bytes = n * 4;
    const model_layout *l = &p->params.layout;
    const struct {
        const char *name;
        const int32_t *from;
        bool taken;
    } inputs[] = {{"tokens", b->tokens, l->embeds && chunk == 0}, {"position", b->position, true},
            {"labels", b->labels, programs_is_last(p, chunk)}};
    char name[32];
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (!inputs[i].taken) continue;
        snprintf(name, sizeof name, "%s.%d", inputs[i].name, chunk);
        DRV_TRY(backend_write(p->b, 0, name, slot * bytes, bytes, inputs[i].from + at));
    }
    return DRV_OK;
}

// Of token t of a micro-batch on this rank: its row there, and its place in the whole row.
static int64_t row_of_token(const batch *b, int64_t t, int64_t *in_row) {
    const int64_t u = zigzag_chunk_tokens(&b->cut), leaf = ZIGZAG_HALVES * u;
    *in_row = t % b->row_tokens;
    if (!b->row) return t / b->row_tokens;
    const int64_t run = t / leaf; // of the tokens of a row that a leaf has; rows follow each other
    const int chunk = (int)(run / b->micro * ZIGZAG_HALVES + t % leaf / u);
    *in_row = zigzag_chunk(&b->cut, b->place, chunk) * u + t % u;
    return run % b->micro;
}

// Where the tokens of n rows are from, from `first` of the global batch on: to element `to`.
static drv_status write_origin(const batch *b, programs *p, const char *name, int64_t to,
        int64_t first, int64_t n_rows) {
    enum { PIECE = 256 }; // tokens
    const int64_t n = n_rows * b->row_tokens, first_row = b->rows_before + first;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t n_here = n - at < PIECE ? n - at : PIECE, bytes = 12 * n_here;
        uint32_t words[3 * PIECE];
        for (int64_t i = 0; i < n_here; i++) {
            int64_t in_row;
            const uint64_t row = (uint64_t)(first_row + row_of_token(b, at + i, &in_row));
            words[3 * i] = (uint32_t)row;
            words[3 * i + 1] = (uint32_t)(row >> 32);
            words[3 * i + 2] = (uint32_t)in_row;
        }
        for (int rank = 0; rank < p->b->n_local_ranks; rank++)
            DRV_TRY(backend_write(p->b, rank, name, 12 * (to + at), bytes, words));
    }
    return DRV_OK;
}

drv_status batch_write_origin(const batch *b, programs *p, int chunk, int slot, int64_t m) {
    const int64_t n_rows = p->c->micro_batch_size;
    char name[32];
    snprintf(name, sizeof name, chunk < 0 ? "origin" : "origin.%d", chunk);
    return write_origin(b, p, name, slot * n_rows * b->row_tokens, batch_index(b, m) * n_rows,
            n_rows);
}

// That of its first row.
static drv_status write_number(const batch *b, programs *p, const char *name, int64_t to,
        int64_t index) {
    const uint64_t row = (uint64_t)(b->rows_before + index * p->c->micro_batch_size);
    const uint32_t words[] = {(uint32_t)row, (uint32_t)(row >> 32)};
    for (int rank = 0; rank < p->b->n_local_ranks; rank++)
        DRV_TRY(backend_write(p->b, rank, name, to * (int64_t)sizeof words, sizeof words, words));
    return DRV_OK;
}

drv_status batch_write_number(const batch *b, programs *p, int chunk, int slot, int64_t m) {
    char name[32];
    if (p->c->grad_dtype != PRECISION_BF16) return DRV_OK;
    snprintf(name, sizeof name, chunk < 0 ? "number" : "number.%d", chunk);
    return write_number(b, p, name, slot, batch_index(b, m));
}

drv_status batch_write_turn(programs *p, int chunk, int slot, int64_t m) {
    const gradient_sums sums = zero_sums(p->c);
    const bool turns = p->zero == 2;
    const int32_t value = turns ? (int32_t)m : m + 1 == sums.micro_batches;
    char name[32];
    if (!turns && !sums.ranks) return DRV_OK;
    const int n = snprintf(name, sizeof name, turns ? "turn" : "last");
    if (chunk >= 0) snprintf(name + n, sizeof name - (size_t)n, ".%d", chunk);
    for (int rank = 0; rank < p->b->n_local_ranks; rank++)
        DRV_TRY(backend_write(p->b, rank, name, slot * (int64_t)sizeof value, sizeof value,
                &value));
    return DRV_OK;
}

static drv_status write_numbers(const batch *b, programs *p) {
    const int64_t n = b->rows / p->c->micro_batch_size;
    for (int64_t i = 0; i < n && p->c->grad_dtype == PRECISION_BF16; i++)
        DRV_TRY(write_number(b, p, "step.number", i, batch_index(b, i)));
    return DRV_OK;
}

drv_status batch_write_whole(const batch *b, programs *p) {
    DRV_TRY(write_inputs(b, p, "step.", 0, b->rows));
    DRV_TRY(write_numbers(b, p));
    if (p->c->lora.dropout == 0) return DRV_OK;
    return write_origin(b, p, "step.origin", 0, batch_index(b, 0) * p->c->micro_batch_size,
            b->rows);
}

// --- reading ahead
batch_reader batch_reader_new(arena *a, rows *r, const run_config *cfg, int place) {
    const int64_t share = cfg->global_batch_size / cfg->data_ranks;
    batch_reader reader = {.rows = r, .n_global = cfg->global_batch_size};
    for (int i = 0; i < 2; i++) {
        reader.batches[i] = batch_of_run(a, cfg, share);
        reader.batches[i].every_micro = zero_every_micro(cfg);
        reader.batches[i].first_micro = zero_first_micro(cfg, place);
    }
    return reader;
}

static drv_status fill_other(void *ctx) {
    batch_reader *reader = ctx;
    batch *b = &reader->batches[!reader->current];
    batch_clear(b);
    b->rows_before = rows_taken(reader->rows);
    int64_t at = 0; // row of the global batch
    while (b->filled < b->rows) {
        const int64_t row = batch_index(b, b->filled / b->micro) * b->micro + b->filled % b->micro;
        rows_skip(reader->rows, row - at);
        DRV_TRY(batch_add_row(b, reader->rows));
        at = row + 1;
    }
    rows_skip(reader->rows, reader->n_global - at);
    b->rows_taken = rows_taken(reader->rows);
    return DRV_OK;
}

drv_status batch_reader_next(batch_reader *reader, bool more, batch **out) {
    if (!reader->started) task_start(&reader->task, fill_other, reader);
    reader->started = false;
    DRV_TRY(task_wait(&reader->task));
    reader->current = !reader->current;
    *out = &reader->batches[reader->current];
    if (more) task_start(&reader->task, fill_other, reader);
    reader->started = more;
    return DRV_OK;
}

int64_t batch_reader_bytes(const run_config *cfg) {
    enum { N_BATCHES = 2, N_ARRAYS = 3 }; // tokens, position, labels
    const zigzag cut = programs_cut(cfg);
    const int64_t share = cfg->global_batch_size / cfg->data_ranks,
                  whole = zigzag_leaves(&cut) > 1 ? cut.tokens : 0; // a row before it is cut
    return N_BATCHES * N_ARRAYS * (int64_t)sizeof(int32_t) *
           (share * programs_row_tokens(cfg) + whole);
}

void batch_reader_close(batch_reader *reader) {
    if (task_wait(&reader->task) != DRV_OK) log_file_only("read ahead: %s", drv_message());
    for (int i = 0; i < 2; i++)
        str_free(&reader->batches[i].names);
}
