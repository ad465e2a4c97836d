// Text from a model: the prompt goes through in blocks, then one token at a time.
#include "train/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/json.h"
#include "train/state.h"

enum { PREFILL = 64, DEFAULT_TOKENS = 200 };

struct generator {
    const generate_opts *opts;
    tokenizer *tokenizer;
    programs p; // only weights and back end are used
    run_config config;
    executable *prefill, *decode;
    sampler *sampler;
    float *logits;
    uint16_t *words;    // logits as a bf16 model gives them; NULL: fp32
    id_list prompt;     // ids
    int64_t max_tokens; // new ones
    int64_t capacity;   // of the caches, tokens
    double prompt_s;
};

static drv_status run_tokens(generator *g, executable *e, const int32_t *ids, int64_t n,
        int64_t first) {
    backend *b = g->p.b;
    int32_t position[PREFILL];
    for (int64_t i = 0; i < n; i++)
        position[i] = (int32_t)(first + i);
    const bool prefill = e == g->prefill;
    DRV_TRY(backend_write(b, 0, prefill ? "prefill.tokens" : "decode.tokens", 0, 4 * n, ids));
    DRV_TRY(backend_write(b, 0, prefill ? "prefill.position" : "decode.position", 0, 4 * n,
            position));
    return backend_run(b, e);
}

static drv_status read_logits(generator *g) {
    const int64_t n = g->config.model.vocab_size;
    if (!g->words) return backend_read(g->p.b, 0, "logits", 0, 4 * n, g->logits);
    DRV_TRY(backend_read(g->p.b, 0, "logits", 0, 2 * n, g->words));
    for (int64_t i = 0; i < n; i++)
        g->logits[i] = bf16_to_f32(g->words[i]);
    return DRV_OK;
}

// --- opening
// What config.json calls its dtype, or what a run of ours computed in while it wrote fp32 masters.
static bool says_bf16(arena *a, const char *folder) {
    json_t *config, *run;
    bool bf16 = false;
    const char *trainer_path = path_join(a, folder, "trainer.json");
    if (json_read_file(path_join(a, folder, "config.json"), &config) == DRV_OK) {
        const char *type = json_string_value(json_object_get(config, "dtype"));
        if (!type) type = json_string_value(json_object_get(config, "torch_dtype"));
        bf16 = type && strcmp(type, "bfloat16") == 0;
        json_decref(config);
    }
    if (file_exists(trainer_path) && json_read_file(trainer_path, &run) == DRV_OK) {
        const json_t *keys = json_object_get(run, "config");
        const char *type = json_string_value(json_object_get(keys, "training.precision"));
        bf16 |= type && strcmp(type, "bf16") == 0;
        json_decref(run);
    }
    return bf16;
}

static drv_status encode_prompt(generator *g) {
    const generate_opts *o = g->opts;
    encoder *e = encoder_new(g->tokenizer);
    str clean = {0};
    utf8_sanitize(o->prompt, o->prompt_bytes, &clean);
    encoder_run(e, clean.p ? clean.p : "", clean.n, true, &g->prompt);
    encoder_free(e);
    str_free(&clean);
    const int32_t bos = tokenizer_bos(g->tokenizer);
    if (g->prompt.n == 0) id_list_add(&g->prompt, bos >= 0 ? bos : 0);
    for (int64_t i = 0; i < g->prompt.n; i++)
        if (g->prompt.p[i] >= g->config.model.vocab_size)
            return drv_fail(DRV_E_DATA,
                    "the tokenizer's id %d is beyond the model's vocabulary of %lld",
                    g->prompt.p[i], (long long)g->config.model.vocab_size);
    return DRV_OK;
}

static drv_status fit_context(generator *g) {
    const int64_t context = g->config.model.max_position_embeddings, n = g->prompt.n;
    const int64_t left = context - n;
    g->max_tokens = g->opts->max_tokens;
    if (left < 1)
        return drv_fail(DRV_E_USAGE,
                "the prompt has %lld tokens, but the model's context of %lld leaves room for fewer than that",
                (long long)n, (long long)context);
    if (g->max_tokens == 0) g->max_tokens = left < DEFAULT_TOKENS ? left : DEFAULT_TOKENS;
    if (g->max_tokens > left)
        return drv_fail(DRV_E_USAGE,
                "prompt and --max-tokens are %lld tokens, but the model's context is %lld; expected --max-tokens of at most %lld",
                (long long)(n + g->max_tokens), (long long)context, (long long)left);
    g->capacity = n + g->max_tokens;
    if (g->capacity < PREFILL) g->capacity = PREFILL;
    return DRV_OK;
}

static drv_status compile(arena *a, generator *g, llama_mode mode, const llama_opts *opts,
        executable **out) {
    graph *program = llama_build(a, &g->p.params, mode, opts);
    DRV_TRY(graph_verify(program, STAGE_BUILT));
    return backend_compile(a, g->p.b, program, NULL, out);
}

static drv_status open_model(arena *a, generator *g) {
    const generate_opts *o = g->opts;
    const model_layout layout = layout_of(&g->config.model);
    const bool bf16 = o->precision == GENERATE_BF16 ||
                      (o->precision == GENERATE_AUTO && says_bf16(a, o->folder));
    const dtype dt = bf16 ? DT_BF16 : DT_F32;
    const int64_t n_vocab = g->config.model.vocab_size;
    g->p = (programs){.c = &g->config, .dt = dt, .params = llama_params(a, &layout)};
    DRV_TRY(backend_open(a, o->backend, &g->p.b));
    llama_opts shape = {.rows = 1, .seq = PREFILL, .dt = dt, .capacity = g->capacity};
    DRV_TRY(compile(a, g, LLAMA_PREFILL, &shape, &g->prefill));
    shape.seq = 1;
    DRV_TRY(compile(a, g, LLAMA_DECODE, &shape, &g->decode));
    DRV_TRY(state_load_eval_weights(&g->p, o->folder));
    g->logits = ARENA_ARRAY(a, float, n_vocab);
    if (bf16) g->words = ARENA_ARRAY(a, uint16_t, n_vocab);
    g->sampler = sampler_new(a, &o->sampling, n_vocab);
    return DRV_OK;
}

// All but the last token of the prompt go into the caches.
static drv_status run_prompt(generator *g) {
    const double begin = clock_s();
    const int64_t n = g->prompt.n - 1;
    int64_t done = 0;
    for (; done + PREFILL <= n; done += PREFILL)
        DRV_TRY(run_tokens(g, g->prefill, g->prompt.p + done, PREFILL, done));
    if (done > 0 && done < n) { // the last block repeats tokens of the one before
        done = n - PREFILL;
        DRV_TRY(run_tokens(g, g->prefill, g->prompt.p + done, PREFILL, done));
        done = n;
    }
    for (; done < n; done++)
        DRV_TRY(run_tokens(g, g->decode, g->prompt.p + done, 1, done));
    g->prompt_s = clock_s() - begin;
    return DRV_OK;
}

static drv_status open_all(arena *a, generator *g) {
    DRV_TRY(model_config_read(g->opts->folder, &g->config.model));
    DRV_TRY(tokenizer_open(a, g->opts->folder, &g->tokenizer));
    DRV_TRY(encode_prompt(g));
    DRV_TRY(fit_context(g));
    DRV_TRY(open_model(a, g));
    return run_prompt(g);
}

drv_status generator_open(arena *a, const generate_opts *opts, generator **out) {
    generator *g = ARENA_NEW(a, generator);
    g->opts = opts;
    drv_status status = open_all(a, g);
    if (status == DRV_OK)
        *out = g;
    else
        generator_close(g);
    return status;
}

void generator_close(generator *g) {
    if (g->p.b) backend_close(g->p.b);
    if (g->tokenizer) tokenizer_close(g->tokenizer);
    id_list_free(&g->prompt);
}

int64_t generator_prompt_tokens(const generator *g) {
    return g->prompt.n;
}

double generator_prompt_s(const generator *g) {
    return g->prompt_s;
}

bool generator_is_bf16(const generator *g) {
    return g->words != NULL;
}

// --- one continuation
static bool is_end(const generator *g, int32_t id) {
    const model_config *m = &g->config.model;
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos_token_id[i] == id) return true;
    return id == tokenizer_eos(g->tokenizer);
}

// Where a stop text begins in text[from, n), NULL: nowhere. *held: bytes at the end that may be the
// beginning of one.
static const char *find_stop(const generate_opts *o, const str *text, size_t from, size_t *held) {
    const char *first = NULL;
    *held = 0;
    for (int i = 0; i < o->n_stops; i++) {
        const size_t n = strlen(o->stops[i]);
        const char *place = memmem(text->p + from, text->n - from, o->stops[i], n);
        if (place && (!first || place < first)) first = place;
        for (size_t k = n - 1 < text->n - from ? n - 1 : text->n - from; k > *held; k--)
            if (memcmp(text->p + text->n - k, o->stops[i], k) == 0) *held = k;
    }
    return first;
}

typedef struct emitter {
    void (*emit)(void *ctx, const char *text, size_t n);
    void *ctx;
    size_t done; // bytes of the text that were emitted
} emitter;

static void emit_up_to(emitter *e, const str *text, size_t end) {
    if (e->emit && end > e->done) e->emit(e->ctx, text->p + e->done, end - e->done);
    if (end > e->done) e->done = end;
}

// Draws tokens until an end; `ids` are those of the prompt and grow.
static drv_status continue_prompt(generator *g, int64_t index, id_list *ids, stream_decoder *d,
        emitter *e, generate_result *out) {
    while (out->ids.n < g->max_tokens) {
        DRV_TRY(run_tokens(g, g->decode, ids->p + ids->n - 1, 1, ids->n - 1));
        DRV_TRY(read_logits(g));
        const rng_key key = {(uint64_t)g->opts->seed, RNG_SAMPLE, (uint64_t)ids->n};
        const int32_t id =
                sampler_draw(g->sampler, g->logits, ids->p, ids->n, &key, (uint64_t)index);
        if (id < 0)
            return drv_fail(DRV_E_DATA, "\"%s\": the model gives NaN or infinity after %lld tokens",
                    g->opts->folder, (long long)ids->n);
        out->stopped = is_end(g, id);
        if (out->stopped) break;
        id_list_add(ids, id);
        id_list_add(&out->ids, id);
        size_t held;
        stream_decoder_add(d, id, &out->text);
        if (!out->text.p) continue;
        const char *stop = find_stop(g->opts, &out->text, e->done, &held);
        if (stop) {
            out->text.n = (size_t)(stop - out->text.p);
            out->text.p[out->text.n] = 0;
            out->stopped = true;
            break;
        }
        emit_up_to(e, &out->text, out->text.n - held);
    }
    emit_up_to(e, &out->text, out->text.n);
    return DRV_OK;
}

drv_status generator_run(generator *g, int64_t index,
        void (*emit)(void *ctx, const char *text, size_t n), void *ctx, generate_result *out) {
    *out = (generate_result){0};
    id_list ids = {0};
    id_list_append(&ids, g->prompt.p, g->prompt.n);
    stream_decoder d = {.t = g->tokenizer};
    str discard = {0};
    for (int64_t i = 0; i < ids.n; i++) // the prompt is not part of the text
        stream_decoder_add(&d, ids.p[i], &discard);
    str_free(&discard);
    emitter e = {emit, ctx, 0};
    const double begin = clock_s();
    drv_status status = continue_prompt(g, index, &ids, &d, &e, out);
    out->seconds = clock_s() - begin;
    str_free(&d.pending);
    id_list_free(&ids);
    if (status != DRV_OK) generate_result_free(out);
    return status;
}

void generate_result_free(generate_result *r) {
    str_free(&r->text);
    id_list_free(&r->ids);
}
