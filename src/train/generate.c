#include "train/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "train/state.h"

enum { PREFILL = 64 };

typedef struct generator {
    const generate_opts *o;
    programs p; // only weights and back end are used
    run_config config;
    executable *prefill, *decode;
    float *logits, *sorted;
    int64_t capacity;
} generator;

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

static int by_size(const void *x, const void *y) {
    float a = *(const float *)x, b = *(const float *)y;
    return a > b ? -1 : a < b;
}

// Draws from softmax(logits / temperature), restricted to the likeliest tokens that make up top_p.
static int32_t sample(generator *g, int64_t step) {
    const generate_opts *o = g->o;
    const int64_t n = g->config.model.vocab_size;
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (g->logits[i] > g->logits[best]) best = i;
    if (o->temperature <= 0) return (int32_t)best;
    const double top = (double)g->logits[best];
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        g->logits[i] = (float)exp(((double)g->logits[i] - top) / o->temperature);
        total += (double)g->logits[i];
    }
    double least = 0;
    if (o->top_p < 1) {
        // All below the cut together have at most 1 - top_p: they need not be sorted.
        const double cut = (1 - o->top_p) * total / (double)n;
        int64_t n_sorted = 0;
        for (int64_t i = 0; i < n; i++)
            if ((double)g->logits[i] >= cut) g->sorted[n_sorted++] = g->logits[i];
        qsort(g->sorted, (size_t)n_sorted, sizeof *g->sorted, by_size);
        double kept = 0;
        for (int64_t i = 0; i < n_sorted && kept < o->top_p * total; i++)
            kept += (double)g->sorted[i], least = (double)g->sorted[i];
        total = 0;
        for (int64_t i = 0; i < n; i++)
            if ((double)g->logits[i] >= least) total += (double)g->logits[i];
    }
    const rng_key key = {(uint64_t)o->seed, RNG_SAMPLE, (uint64_t)step};
    double x = rng_uniform(&key, 0) * total;
    int64_t last = best;
    for (int64_t i = 0; i < n; i++) {
        if ((double)g->logits[i] < least) continue;
        last = i;
        x -= (double)g->logits[i];
        if (x < 0) break;
    }
    return (int32_t)last;
}

static drv_status open_model(arena *a, generator *g) {
    const generate_opts *o = g->o;
    run_config *c = &g->config;
    DRV_TRY(model_config_read(o->folder, &c->model));
    const model_layout l = layout_of(&c->model);
    g->p = (programs){.c = c, .dt = DT_F32, .params = llama_params(a, &l)};
    DRV_TRY(backend_open(a, o->backend, &g->p.b));
    llama_opts lo = {.rows = 1, .seq = PREFILL, .dt = DT_F32, .capacity = g->capacity};
    graph *prefill = llama_build(a, &g->p.params, LLAMA_PREFILL, &lo);
    DRV_TRY(graph_verify(prefill, STAGE_BUILT));
    DRV_TRY(backend_compile(a, g->p.b, prefill, NULL, &g->prefill));
    lo.seq = 1;
    graph *decode = llama_build(a, &g->p.params, LLAMA_DECODE, &lo);
    DRV_TRY(graph_verify(decode, STAGE_BUILT));
    DRV_TRY(backend_compile(a, g->p.b, decode, NULL, &g->decode));
    DRV_TRY(state_load_eval_weights(&g->p, o->folder));
    g->logits = ARENA_ARRAY(a, float, c->model.vocab_size);
    g->sorted = ARENA_ARRAY(a, float, c->model.vocab_size);
    return DRV_OK;
}

static bool ends(const model_config *m, const tokenizer *t, int32_t id) {
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos_token_id[i] == id) return true;
    return id == tokenizer_eos(t);
}

static drv_status decode_loop(generator *g, const tokenizer *t, id_list *ids, generate_stats *st) {
    const generate_opts *o = g->o;
    backend *b = g->p.b;
    stream_decoder d = {.t = t};
    str text = {0};
    // What the prompt decodes to is not printed again.
    for (int64_t i = 0; i < ids->n; i++)
        stream_decoder_add(&d, ids->p[i], &text);
    drv_status s = DRV_OK;
    for (; s == DRV_OK && st->new_tokens < o->max_tokens; st->new_tokens++) {
        s = run_tokens(g, g->decode, ids->p + ids->n - 1, 1, ids->n - 1);
        if (s == DRV_OK)
            s = backend_read(b, 0, "logits", 0, 4 * g->config.model.vocab_size, g->logits);
        if (s != DRV_OK) break;
        int32_t id = sample(g, ids->n);
        if (ends(&g->config.model, t, id)) break;
        id_list_add(ids, id);
        str_clear(&text);
        stream_decoder_add(&d, id, &text);
        o->emit(o->ctx, text.p ? text.p : "", text.n);
    }
    str_free(&text);
    str_free(&d.pending);
    return s;
}

drv_status generate(arena *a, const generate_opts *o, generate_stats *out) {
    generator *g = ARENA_NEW(a, generator);
    g->o = o;
    tokenizer *t;
    DRV_TRY(tokenizer_open(a, o->folder, &t));
    id_list ids = {0};
    encoder *e = encoder_new(t);
    str clean = {0};
    utf8_sanitize(o->prompt, strlen(o->prompt), &clean);
    encoder_run(e, clean.p ? clean.p : "", clean.n, true, &ids);
    encoder_free(e);
    str_free(&clean);
    if (ids.n == 0) id_list_add(&ids, tokenizer_bos(t) >= 0 ? tokenizer_bos(t) : 0);
    g->capacity = ids.n + o->max_tokens;
    if (g->capacity < PREFILL) g->capacity = PREFILL;
    *out = (generate_stats){.prompt_tokens = ids.n};
    drv_status s = open_model(a, g);
    if (s == DRV_OK && ids.n + o->max_tokens > g->config.model.max_position_embeddings)
        s = drv_fail(DRV_E_USAGE,
                "prompt and --max-tokens are %lld tokens, but the model's context is %lld",
                (long long)(ids.n + o->max_tokens),
                (long long)g->config.model.max_position_embeddings);
    for (int64_t i = 0; i < ids.n && s == DRV_OK; i++)
        if (ids.p[i] >= g->config.model.vocab_size)
            s = drv_fail(DRV_E_DATA,
                    "the tokenizer's id %d is beyond the model's vocabulary of %lld", ids.p[i],
                    (long long)g->config.model.vocab_size);
    double begin = clock_s();
    int64_t done = 0; // all but the last token of the prompt go into the caches first
    for (; s == DRV_OK && done + PREFILL < ids.n; done += PREFILL)
        s = run_tokens(g, g->prefill, ids.p + done, PREFILL, done);
    for (; s == DRV_OK && done < ids.n - 1; done++)
        s = run_tokens(g, g->decode, ids.p + done, 1, done);
    out->prefill_s = clock_s() - begin;
    begin = clock_s();
    if (s == DRV_OK) s = decode_loop(g, t, &ids, out);
    out->decode_s = clock_s() - begin;
    id_list_free(&ids);
    if (g->p.b) backend_close(g->p.b);
    tokenizer_close(t);
    return s;
}
