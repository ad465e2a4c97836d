// Reads texts in batches, encodes each batch on all threads, and keeps the ids in order.
#include "data/set/documents.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/parallel.h"
#include "data/read/text_batch.h"
#include "tok/unicode.h"

typedef struct encoded { // of a piece: where its ids are, and its white space
    int thread;
    int64_t at, n, words;
} encoded;

typedef struct reading {
    const documents_opts *opts;
    reader *in;
    text_batch *text;
    encoder **encoders; // by thread
    id_list *ids;       // by thread
    encoded pieces[TEXT_BATCH];
    str prefix_text;
    documents *out;
} reading;

// Runs of white space. One is never cut in two: pieces end between a letter and a space.
static int64_t count_gaps(const char *p, size_t n) {
    const unsigned char *s = (const unsigned char *)p, *const end = s + n;
    bool inside = false;
    int64_t gaps = 0;
    while (s < end) {
        const bool space = cp_is_python_space(utf8_next(&s));
        gaps += space && !inside;
        inside = space;
    }
    return gaps;
}

static bool begins_with_prefix(const reading *r, const text_piece *p) {
    const str *prefix = &r->prefix_text;
    return prefix->n > 0 && p->n >= prefix->n && memcmp(p->p, prefix->p, prefix->n) == 0;
}

static const char *encode(void *ctx, const text_piece *p, int i, int thread) {
    reading *r = ctx;
    id_list *ids = &r->ids[thread];
    const int64_t at = ids->n;
    const bool specials = r->opts->specials && !(p->begins && begins_with_prefix(r, p));
    encoder_piece(r->encoders[thread], p, specials, ids);
    r->pieces[i] = (encoded){thread, at, ids->n - at, count_gaps(p->p, p->n)};
    return NULL;
}

static void keep(reading *r) {
    documents *out = r->out;
    for (int i = 0; i < r->text->n; i++) {
        const text_piece *piece = &r->text->pieces[i];
        const encoded *e = &r->pieces[i];
        if (!piece->p) continue; // a broken record
        if (piece->begins) {
            MEM_GROW(out->begin, out->n + 1, out->cap);
            out->begin[out->n++] = out->ids.n;
            id_list_add(&out->ids, r->opts->prefix);
            out->words++;
        }
        id_list_append(&out->ids, r->ids[e->thread].p + e->at, e->n);
        out->begin[out->n] = out->ids.n;
        out->bytes += (int64_t)piece->n;
        out->words += e->words;
    }
    out->skipped += r->text->skipped;
    out->replaced += r->text->replaced;
}

static drv_status read_all(reading *r, const tokenizer *t) {
    while (r->text->more) {
        DRV_TRY(text_batch_read(r->text, r->in));
        for (int k = 0; k < par_threads(); k++)
            r->ids[k].n = 0;
        tokenizer_tidy(t);
        DRV_TRY(text_batch_decode(r->text, r->in, encode, r));
        keep(r);
        int64_t total, done = reader_bytes(r->in, &total);
        progress("reading: %5.1f%%  %lld documents  %s tokens",
                100 * (double)done / (double)(total ? total : 1), (long long)r->out->n,
                str_si((double)r->out->ids.n));
    }
    if (r->out->n) return DRV_OK;
    return reader_no_document(r->in, r->out->skipped);
}

drv_status documents_read(arena *a, const tokenizer *tok, const documents_opts *opts,
        documents *out) {
    const int n_threads = par_threads();
    reading *state = ARENA_NEW(a, reading);
    reader_opts ro = opts->reader;
    *state = (reading){.opts = opts, .out = out};
    *out = (documents){0};
    ro.whole = !tokenizer_can_cut(tok);
    DRV_TRY(reader_open(a, opts->inputs, opts->n_inputs, &ro, &state->in));
    tokenizer_decode(tok, &opts->prefix, 1, false, &state->prefix_text);
    state->text = text_batch_new();
    state->encoders = ARENA_ARRAY(a, encoder *, n_threads);
    state->ids = mem_alloc_lines((size_t)n_threads * sizeof *state->ids);
    for (int i = 0; i < n_threads; i++) {
        state->encoders[i] = encoder_new(tok);
        state->ids[i] = (id_list){0};
    }
    const drv_status status = read_all(state, tok);
    progress_end();
    for (int i = 0; i < n_threads; i++) {
        encoder_free(state->encoders[i]);
        id_list_free(&state->ids[i]);
    }
    free(state->ids);
    str_free(&state->prefix_text);
    text_batch_free(state->text);
    reader_close(state->in);
    if (status != DRV_OK) documents_free(out);
    return status;
}

void documents_free(documents *d) {
    id_list_free(&d->ids);
    free(d->begin);
    *d = (documents){0};
}
