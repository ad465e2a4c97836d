// Reads the global batches of a run ahead and writes them to the inputs of its programs.
#include "programs/batch_feed.h"

#include "base/log.h"
#include "base/rng.h"
#include "weights/hashes.h"
#include "setup/run_layout.h"

batch batch_of_run(arena *a, const run_config *cfg, int64_t n_rows) {
    const run_layout layout = run_layout_of(cfg);
    batch b = batch_new(a, n_rows, layout.row_tokens);
    b.zigzag = layout.zigzag;
    b.place = mesh_place(&layout.mesh, (int)cfg->rank, AXIS_CONTEXT);
    b.micro = cfg->micro_batch_size;
    const bool pairs = cfg->objective == OBJECTIVE_DPO;
    if (pairs) batch_add_pairs(a, &b);
    if (zigzag_blocks(&b.zigzag) > 1)
        b.row = ARENA_ARRAY(a, int32_t,
                (pairs ? BATCH_PAIR_ARRAYS : BATCH_ARRAYS) * b.zigzag.tokens);
    return b;
}

// Returns the row of token t of a micro-batch on this rank, and its place in the whole row.
static int64_t row_of_token(const batch *b, int64_t t, int64_t *in_row) {
    const int64_t u = zigzag_chunk_tokens(&b->zigzag), block = ZIGZAG_HALVES * u;
    *in_row = t % b->row_tokens;
    if (!b->row) return t / b->row_tokens;
    const int64_t run =
            t / block; // of the tokens of a row that a reduction block has; rows follow each other
    const int chunk = (int)(run / b->micro * ZIGZAG_HALVES + t % block / u);
    *in_row = zigzag_chunk(&b->zigzag, b->place, chunk) * u + t % u;
    return run % b->micro;
}

static drv_status put(programs *p, program_input which, int chunk, int64_t first, int64_t bytes,
        const void *from) {
    const input_name name = input_name_of(which, chunk);
    return backend_write(p->held.b, name.text, first, bytes, from);
}

// Writes n rows of the batch, from `first` on, to an input.
static drv_status put_rows(const batch *b, programs *p, program_input which, int chunk,
        int64_t first, int64_t n) {
    return put(p, which, chunk, 0, batch_bytes(b, which, n), batch_values(b, which, first));
}

// Writes the origin of the tokens of n rows, from row `first` of the global batch on.
static drv_status put_origin(const batch *b, programs *p, int chunk, int64_t first,
        int64_t n_rows) {
    enum { PIECE = 256 }; // tokens
    const int64_t n = n_rows * b->row_tokens, first_row = b->rows_before + first;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t n_here = n - at < PIECE ? n - at : PIECE;
        uint32_t words[3 * PIECE];
        for (int64_t i = 0; i < n_here; i++) {
            int64_t in_row;
            const uint64_t row = (uint64_t)(first_row + row_of_token(b, at + i, &in_row));
            words[3 * i] = (uint32_t)row;
            words[3 * i + 1] = (uint32_t)(row >> 32);
            words[3 * i + 2] = (uint32_t)in_row;
        }
        DRV_TRY(put(p, INPUT_ORIGIN, chunk, 12 * at, 12 * n_here, words));
    }
    return DRV_OK;
}

// The number of micro-batch m in the run is that of its first row.
static drv_status put_number(const batch *b, programs *p, int chunk, int64_t to, int64_t m) {
    const uint64_t row =
            (uint64_t)(b->rows_before + batch_index(b, m) * p->held.config->micro_batch_size);
    const uint32_t words[] = {(uint32_t)row, (uint32_t)(row >> 32)};
    if (p->held.config->grad_dtype != PRECISION_BF16) return DRV_OK;
    return put(p, INPUT_NUMBER, chunk, to * (int64_t)sizeof words, sizeof words, words);
}

// Writes the input of ops that exchange gradients with other ranks; does nothing if there are none.
static drv_status put_micro_batch(programs *p, int chunk, int64_t m) {
    const gradient_sums *sums = &p->layout.sums;
    const bool numbered = p->layout.zero >= 2;
    const int32_t value = numbered ? (int32_t)m : m + 1 == sums->micro_batches;
    if (!numbered && !sums->ranks) return DRV_OK;
    return put(p, numbered ? INPUT_MICRO_BATCH : INPUT_LAST, chunk, 0, sizeof value, &value);
}

drv_status batch_feed_rows(const batch *b, programs *p, int chunk, int64_t m) {
    const int64_t n = p->held.config->micro_batch_size;
    const int stage = chunk == INPUT_ALONE ? 0 : chunk;
    const bool last = programs_is_last(p, stage);
    const bool taken[] = {[INPUT_TOKENS] = p->held.params.layout.embeds && stage == 0,
            [INPUT_POSITION] = true,
            [INPUT_LABELS] = last,
            [INPUT_PAIR] = last && b->pair,
            [INPUT_REFERENCE] = last && b->pair,
            [INPUT_HIDDEN] = b->hidden != NULL};
    for (program_input which = INPUT_TOKENS; which <= INPUT_HIDDEN; which++)
        if (taken[which]) DRV_TRY(put_rows(b, p, which, chunk, m * n, n));
    return DRV_OK;
}

drv_status batch_feed(const batch *b, programs *p, int chunk, int64_t m) {
    const int64_t n_rows = p->held.config->micro_batch_size;
    const bool alone = chunk == INPUT_ALONE;
    if (alone ? p->held.config->lora.dropout > 0 : p->stage[chunk].drops)
        DRV_TRY(put_origin(b, p, chunk, batch_index(b, m) * n_rows, n_rows));
    if (alone || p->stage[chunk].trains_here) {
        DRV_TRY(put_number(b, p, chunk, 0, m));
        DRV_TRY(put_micro_batch(p, chunk, m));
    }
    return batch_feed_rows(b, p, chunk, m);
}

drv_status batch_feed_step(const batch *b, programs *p) {
    const int64_t n_rows = p->held.config->micro_batch_size;
    for (program_input which = INPUT_TOKENS; which <= INPUT_LABELS; which++)
        DRV_TRY(put_rows(b, p, which, INPUT_OF_STEP, 0, b->rows));
    for (int64_t m = 0; m < b->rows / n_rows; m++)
        DRV_TRY(put_number(b, p, INPUT_OF_STEP, m, m));
    if (p->held.config->lora.dropout == 0) return DRV_OK;
    return put_origin(b, p, INPUT_OF_STEP, batch_index(b, 0) * n_rows, b->rows);
}

uint64_t batch_hash(const batch *b, const run_config *cfg) {
    const mesh ranks = run_mesh(cfg);
    const int stage = mesh_place(&ranks, (int)cfg->rank, AXIS_PIPELINE),
              last = ranks.size[AXIS_PIPELINE] - 1;
    const uint64_t tokens = hash_name("batch.tokens"), positions = hash_name("batch.positions"),
                   labels = hash_name("batch.labels");
    uint64_t sum = 0;
    if (mesh_place(&ranks, (int)cfg->rank, AXIS_TENSOR) > 0) return 0;
    for (int64_t i = 0, n = b->micro * b->row_tokens; i < b->rows * b->row_tokens; i++) {
        int64_t in_row;
        const int64_t row = batch_index(b, i / n) * b->micro + row_of_token(b, i % n, &in_row),
                      place = row * cfg->sequence_length + in_row;
        if (stage == 0)
            sum += hashes_word(tokens, place, (uint32_t)b->tokens[i]) +
                   hashes_word(positions, place, (uint32_t)b->position[i]);
        if (stage == last) sum += hashes_word(labels, place, (uint32_t)b->labels[i]);
    }
    return sum;
}

// --- reading ahead
batch_reader batch_reader_new(arena *a, rows *r, const run_config *cfg) {
    const int64_t share = cfg->global_batch_size / cfg->data_ranks;
    const run_layout layout = run_layout_of(cfg);
    batch_reader reader = {.rows = r, .n_global = cfg->global_batch_size};
    for (int i = 0; i < 2; i++) {
        reader.batches[i] = batch_of_run(a, cfg, share);
        reader.batches[i].every_micro = layout.every_micro;
        reader.batches[i].first_micro = layout.first_micro;
        reader.batches[i].counts = ARENA_ARRAY(a, row_count, rows_n_sources(r));
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
    rows_counts(reader->rows, b->counts);
    return DRV_OK;
}

bool batch_reader_ready(batch_reader *reader, double at_most_s) {
    if (!reader->started) task_start(&reader->task, fill_other, reader);
    reader->started = true;
    return task_ended(&reader->task, at_most_s);
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
    enum { N_BATCHES = 2 };
    const run_layout layout = run_layout_of(cfg);
    const bool pairs = cfg->objective == OBJECTIVE_DPO;
    const int64_t share = cfg->global_batch_size / cfg->data_ranks,
                  whole = zigzag_blocks(&layout.zigzag) > 1 ? layout.zigzag.tokens
                                                            : 0, // a row before it is cut
            arrays = pairs ? BATCH_PAIR_ARRAYS : BATCH_ARRAYS,
                  numbers =
                          pairs ? share * (layout.zigzag.tokens / 2) * (int64_t)sizeof(int64_t) : 0;
    return N_BATCHES *
           (arrays * (int64_t)sizeof(int32_t) * (share * layout.row_tokens + whole) + numbers);
}

void batch_reader_close(batch_reader *reader) {
    if (task_wait(&reader->task) != DRV_OK) log_file_only("read ahead: %s", drv_message());
    for (int i = 0; i < 2; i++)
        str_free(&reader->batches[i].names);
}
