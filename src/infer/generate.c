// Draws tokens until an end, and finds stop texts in the text as it grows.
#include "infer/generate.h"

#include <string.h>

#include "base/clock.h"

// Returns the first stop text in text[from, n); NULL: none. *held is the number of bytes at the end
// that may be the beginning of one.
static const char *find_stop(const generate_opts *o, const str *text, size_t from, size_t *held) {
    const char *first = NULL;
    *held = 0;
    for (int i = 0; i < o->n_stops; i++) {
        const size_t n = strlen(o->stops[i]);
        const char *found = memmem(text->p + from, text->n - from, o->stops[i], n);
        if (found && (!first || found < first)) first = found;
        for (size_t k = n - 1 < text->n - from ? n - 1 : text->n - from; k > *held; k--)
            if (memcmp(text->p + text->n - k, o->stops[i], k) == 0) *held = k;
    }
    return first;
}

typedef struct answer {
    const generate_opts *opts;
    stream_decoder decoder;
    size_t n_emitted; // bytes of the text
    generate_result *out;
} answer;

static void emit_up_to(answer *w, size_t end) {
    if (end <= w->n_emitted) return;
    if (w->opts->emit)
        w->opts->emit(w->opts->ctx, w->out->text.p + w->n_emitted, end - w->n_emitted);
    w->n_emitted = end;
}

// Appends the text of a token; true: a stop text ends the answer.
static bool add_text(answer *w, int32_t id) {
    str *text = &w->out->text;
    size_t held;
    stream_decoder_add(&w->decoder, id, text);
    if (!text->p) return false;
    const char *stop = find_stop(w->opts, text, w->n_emitted, &held);
    if (stop) {
        text->n = (size_t)(stop - text->p);
        text->p[text->n] = 0;
        return true;
    }
    emit_up_to(w, text->n - held);
    return false;
}

static drv_status draw(generator *g, sampler *s, const generate_opts *o, int32_t *id) {
    const id_list *ids = generator_sequence(g);
    const rng_key key = {(uint64_t)o->seed, RNG_SAMPLE, (uint64_t)ids->n};
    float *logits;
    DRV_TRY(generator_logits(g, &logits));
    *id = sampler_draw(s, logits, ids->p, ids->n, &key, (uint64_t)o->index);
    if (*id >= 0) return DRV_OK;
    return drv_fail(DRV_E_DATA, "the model gives NaN or infinity after %lld token%s",
            (long long)ids->n, str_plural(ids->n));
}

static drv_status draw_all(generator *gen, sampler *draws, answer *text) {
    const generate_opts *opts = text->opts;
    const int64_t room = generator_capacity(gen) - generator_sequence(gen)->n,
                  most = opts->max_tokens > 0 && opts->max_tokens < room ? opts->max_tokens : room;
    text->out->end = GENERATE_LENGTH;
    while (text->out->ids.n < most) {
        int32_t id;
        if (generator_interrupted(gen)) {
            text->out->end = GENERATE_INTERRUPTED;
            return DRV_OK;
        }
        DRV_TRY(draw(gen, draws, opts, &id));
        if (!generator_is_end(gen, id)) {
            generator_add(gen, id);
            id_list_add(&text->out->ids, id);
        }
        if (generator_is_end(gen, id) || add_text(text, id)) {
            text->out->end = GENERATE_STOP;
            return DRV_OK;
        }
    }
    return DRV_OK;
}

drv_status generate(generator *g, const generate_opts *opts, generate_result *out) {
    *out = (generate_result){0};
    arena *a = arena_new("an answer");
    answer w = {.opts = opts, .decoder = {.t = generator_tokenizer(g)}, .out = out};
    const id_list *ids = generator_sequence(g);
    str before = {0};
    for (int64_t i = 0; i < ids->n; i++) // sets the decoder's state; the prompt's text is dropped
        stream_decoder_add(&w.decoder, ids->p[i], &before);
    str_free(&before);
    sampler *s = sampler_new(a, &opts->sampling, generator_model(g)->vocab_size);
    const double begin = clock_s();
    drv_status status = draw_all(g, s, &w);
    emit_up_to(&w, out->text.n);
    out->seconds = clock_s() - begin;
    str_free(&w.decoder.pending);
    arena_free(a);
    if (status != DRV_OK) generate_result_free(out);
    return status;
}

void generate_result_free(generate_result *r) {
    str_free(&r->text);
    id_list_free(&r->ids);
    *r = (generate_result){0};
}

json_t *generated_json(const char *text, size_t n) {
    str clean = {0};
    utf8_sanitize(text, n, &clean);
    json_t *value = json_stringn(clean.p ? clean.p : "", clean.n);
    str_free(&clean);
    return value;
}
