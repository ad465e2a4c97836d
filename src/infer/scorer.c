// Opens a model for scoring, and runs packed windows through it.
#include "infer/scorer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory_limit.h"
#include "base/round.h"
#include "ir/program_inputs.h"
#include "weights/base_blocks.h"
#include "setup/device.h"
#include "weights/lora_state.h"
#include "setup/process_bytes.h"
#include "weights/state.h"

struct scorer {
    run_config config;
    held_model held;
    graph *score_graph;
    executable *score;
    plan *plan; // of the program `score`
    batch batch;
    double *losses; // [rows, row_tokens]
};

void scorer_choose_rows(int64_t context, int64_t longest, int64_t total, scorer_opts *out) {
    // Rows have SCORER_TOKENS tokens, or fewer if a small set fills some shorter rows as well.
    const int64_t n_rows = div_up(total, SCORER_TOKENS), even = n_rows ? div_up(total, n_rows) : 1,
                  fair = round_up(even + even / 32, 64);
    const int64_t short_of = fair < SCORER_TOKENS ? fair : SCORER_TOKENS,
                  wanted = longest > short_of ? longest : short_of;
    out->row_tokens = wanted < context ? wanted : context;
    out->rows = out->row_tokens < SCORER_TOKENS / 2 && total > out->row_tokens
                        ? SCORER_TOKENS / out->row_tokens
                        : 1;
}

// --- opening
static drv_status find_layout(const scorer_opts *opts, const model_config *model,
        model_layout *out) {
    const mesh alone = mesh_single();
    *out = layout_of(model);
    if (opts->blocks == 0) return DRV_OK;
    return layout_on(model, &alone, 0, &(layout_opts){.blocks = opts->blocks}, out);
}

// Lists the weights and sets their types.
static drv_status list_weights(arena *a, const scorer_opts *opts, scorer *s) {
    lora_set branches;
    model_layout layout;
    held_model *held = &s->held;
    DRV_TRY(find_layout(opts, &s->config.model, &layout));
    DRV_TRY(lora_of_run(a, &s->config, &branches));
    held->params = llama_params(a, &layout, &branches);
    if (opts->quantised)
        return base_blocks_hold(a, &s->config, opts->folder, held->dt, &held->params);
    // The values of a GGUF file are those of its blocks anyway.
    if (opts->base != BASE_GGUF) s->config.base_dtype = opts->base;
    return base_blocks_choose(a, &s->config, held->dt, &held->params);
}

// Plans the program of `opts` and loads it on `b`.
static drv_status compile(arena *a, backend *b, const scorer_opts *opts, scorer *s) {
    s->held = (held_model){.config = &s->config, .b = b, .dt = opts->bf16 ? DT_BF16 : DT_F32};
    DRV_TRY(list_weights(a, opts, s));
    const llama_opts shape = {.rows = opts->rows,
            .seq = opts->row_tokens,
            .dt = s->held.dt,
            .continuations = opts->continuations};
    s->score_graph =
            llama_build(a, &s->held.params, opts->logits ? LLAMA_LOGITS : LLAMA_SCORE, &shape);
    DRV_TRY(graph_verify(s->score_graph, STAGE_BUILT));
    DRV_TRY(backend_compile(a, b, s->score_graph, &s->plan, &s->score));
    return backend_check_program(b, s->score_graph->name, s->score,
            opts->bf16 ? "expected a smaller --context"
                       : "expected a smaller --context, or --precision bf16");
}

// Plans the bytes that a scorer with `opts` would hold.
static drv_status plan_bytes(const scorer_opts *opts, const scorer *like, int64_t *out) {
    arena *a = arena_new("a plan of scoring");
    scorer s = {.config = like->config};
    const drv_status status = compile(a, backend_open_planner(a, false), opts, &s);
    if (status == DRV_OK) {
        *out = s.plan->arena_bytes + process_bytes(&s.config);
        for (int i = 0; i < N_TENSOR_CLASSES; i++)
            *out += s.plan->class_bytes[i];
    }
    arena_free(a);
    return status;
}

static drv_status check_memory(const scorer_opts *opts, const scorer *s) {
    const memory_limit limit = memory_limit_read("");
    scorer_opts smaller = *opts;
    int64_t needed, bytes;
    DRV_TRY(plan_bytes(opts, s, &needed));
    for (bytes = needed; bytes > limit.free && smaller.row_tokens > 64;) {
        smaller.row_tokens /= 2;
        smaller.rows = 1;
        DRV_TRY(plan_bytes(&smaller, s, &bytes));
    }
    if (needed <= limit.free) return DRV_OK;
    if (bytes <= limit.free)
        return drv_fail(DRV_E_DEVICE,
                "\"%s\" on texts of %lld tokens needs %s of memory, but %s are %s; this would fit: --context %lld",
                opts->folder, (long long)opts->row_tokens, str_bytes((double)needed),
                str_bytes((double)limit.free), limit.what, (long long)smaller.row_tokens);
    return drv_fail(DRV_E_DEVICE,
            "\"%s\" needs %s of memory, but %s are %s; expected a smaller model%s", opts->folder,
            str_bytes((double)bytes), str_bytes((double)limit.free), limit.what,
            opts->bf16 ? "" : " or --precision bf16");
}

drv_status scorer_open(arena *a, const scorer_opts *opts, scorer **out) {
    scorer *s = ARENA_NEW(a, scorer);
    backend *b;
    s->config.lora.adapter = opts->adapter;
    s->config.micro_batch_size = opts->rows;
    s->config.sequence_length = opts->row_tokens;
    DRV_TRY(model_config_read(opts->folder, &s->config.model));
    DRV_TRY(check_memory(opts, s));
    DRV_TRY_CTX(backend_open(a, opts->backend, &opts->device, &b), "key \"%s\"",
            device_key(opts->backend, opts->device.plugin));
    *out = s;
    DRV_TRY(compile(a, b, opts, s));
    s->batch = batch_new(a, opts->rows, opts->row_tokens);
    s->losses = ARENA_ARRAY(a, double, opts->rows * opts->row_tokens);
    if (opts->continuations) batch_add_hidden(a, &s->batch);
    // Only training has fp32 masters; here bf16 weights are rounded once, when they are loaded.
    return *opts->adapter ? lora_load_eval(&s->held, opts->folder, opts->adapter)
                          : state_load_eval_weights(&s->held, opts->folder);
}

void scorer_close(scorer *s) {
    if (!s) return;
    str_free(&s->batch.names);
    if (s->held.b) backend_close(s->held.b);
}

// --- running
batch *scorer_batch(scorer *s) {
    return &s->batch;
}

static drv_status write_rows(scorer *s, program_input which) {
    const batch *b = &s->batch;
    return backend_write(s->held.b, input_name_of(which, INPUT_ALONE).text, 0,
            batch_bytes(b, which, b->rows), batch_values(b, which, 0));
}

drv_status scorer_run(scorer *s, const double **losses) {
    const batch *b = &s->batch;
    const int64_t n = b->rows * b->row_tokens;
    for (program_input which = INPUT_TOKENS; which <= INPUT_LABELS; which++)
        DRV_TRY(write_rows(s, which));
    if (b->hidden) DRV_TRY(write_rows(s, INPUT_HIDDEN));
    DRV_TRY(backend_run(s->held.b, s->score));
    DRV_TRY(backend_read(s->held.b, "token_loss", 0, n * (int64_t)sizeof(double), s->losses));
    *losses = s->losses;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(s->losses[i]))
            return drv_fail(DRV_E_DATA, "the loss is %g, expected a finite number%s%s",
                    s->losses[i], b->names.n ? "; rows: " : "", b->names.n ? b->names.p : "");
    return DRV_OK;
}

// --- logits
drv_status scorer_run_logits(scorer *s) {
    for (program_input which = INPUT_TOKENS; which <= INPUT_POSITION; which++)
        DRV_TRY(write_rows(s, which));
    return backend_run(s->held.b, s->score);
}

drv_status scorer_read_logits(scorer *s, int64_t at, float *logits) {
    const int64_t n = s->config.model.vocab_size;
    if (s->held.dt == DT_F32) return backend_read(s->held.b, "logits", 4 * at * n, 4 * n, logits);
    // Read into the second half of `logits`, which conversion from the front overwrites last.
    uint16_t *words = (uint16_t *)(void *)(logits + n) - n;
    DRV_TRY(backend_read(s->held.b, "logits", 2 * at * n, 2 * n, words));
    for (int64_t i = 0; i < n; i++) {
        const float wide = bf16_to_f32(words[i]);
        memcpy(logits + i, &wide, sizeof wide);
    }
    return DRV_OK;
}

// --- windows
typedef struct packed_run {
    scorer *s;
    const int32_t *ids;
    const window_list *list;
    const packed_rows *pack; // a piece's `first` is the number of its window
    double *losses;
    int64_t n_tokens; // of the windows so far
} packed_run;

static window_row row_of_batch(const scorer *s, int64_t row) {
    const batch *b = &s->batch;
    const int64_t at = row * b->row_tokens;
    return (window_row){.row_tokens = b->row_tokens,
            .tokens = b->tokens + at,
            .position = b->position + at,
            .labels = b->labels + at,
            .hidden = b->hidden ? b->hidden + 2 * at : NULL};
}

// Puts the windows of `row` into the next free row of the batch; row -1: only padding.
static void add_row(packed_run *r, int64_t row) {
    window_row to = row_of_batch(r->s, r->s->batch.filled++);
    for (int64_t k = row < 0 ? 0 : r->pack->row[row]; row >= 0 && k < r->pack->row[row + 1]; k++) {
        const score_window *w = &r->list->p[r->pack->pieces[k].first];
        window_put(r->list, w, r->ids, &to);
        r->n_tokens += w->n_tokens;
    }
    window_row_end(&to);
}

static void take_row(const packed_run *r, int64_t row, const double *of_row) {
    for (int64_t k = r->pack->row[row]; k < r->pack->row[row + 1]; k++)
        of_row += window_take(r->list, &r->list->p[r->pack->pieces[k].first], of_row, r->losses);
}

static drv_status run_rows(packed_run *r, scorer_each each, void *ctx) {
    batch *b = &r->s->batch;
    const double *losses;
    for (int64_t row = 0; row < r->pack->n_rows; row += b->rows) {
        const int64_t left = r->pack->n_rows - row, n = left < b->rows ? left : b->rows;
        batch_clear(b);
        while (b->filled < b->rows)
            add_row(r, b->filled < n ? row + b->filled : -1);
        DRV_TRY(scorer_run(r->s, &losses));
        for (int64_t i = 0; i < n; i++)
            take_row(r, row + i, losses + i * b->row_tokens);
        if (each) DRV_TRY(each(ctx, r->n_tokens));
    }
    return DRV_OK;
}

drv_status scorer_windows(scorer *s, const int32_t *ids, const window_list *list, int64_t first,
        int64_t n, double *losses, scorer_each each, void *ctx) {
    piece_list pieces = {.n = n, .p = mem_alloc(sizeof *pieces.p * (size_t)(n + 1))};
    for (int64_t i = 0; i < n; i++)
        pieces.p[i] = (row_piece){.first = first + i, .n = list->p[first + i].n_tokens};
    packed_rows pack;
    packing_make(&pieces, s->batch.row_tokens, &pack);
    packed_run r = {.s = s, .ids = ids, .list = list, .pack = &pack, .losses = losses};
    const drv_status status = run_rows(&r, each, ctx);
    packing_free(&pack);
    free(pieces.p);
    return status;
}
