#include "data/read/text_batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_cursor.h"
#include "base/log.h"
#include "base/parallel.h"
#include "tok/unicode.h"

enum { NAMED = 10 }; // broken records that are named; all are counted

text_batch *text_batch_new(void) {
    text_batch *b = calloc(1, sizeof *b);
    DRV_ASSERT(b, "out of memory");
    b->pieces = calloc(TEXT_BATCH, sizeof *b->pieces);
    b->records = calloc(TEXT_BATCH, sizeof *b->records);
    b->texts = calloc(TEXT_BATCH, sizeof *b->texts);
    b->bad = calloc(TEXT_BATCH, sizeof *b->bad);
    b->more = true;
    DRV_ASSERT(b->pieces && b->records && b->texts && b->bad, "out of memory");
    return b;
}

void text_batch_free(text_batch *b) {
    if (!b) return;
    for (int i = 0; i < TEXT_BATCH; i++) {
        str_free(&b->records[i].bytes);
        str_free(&b->texts[i]);
    }
    free(b->pieces);
    free(b->records);
    free(b->texts);
    free(b->bad);
    free(b);
}

// The string under `key`; the last one if there are several. Returns why there is none, else NULL.
static const char *text_of_json(const record *r, const char *key, str *out, int64_t *bad) {
    json_cursor c = {.p = r->bytes.p, .end = r->bytes.p + r->bytes.n};
    const char *why = "has no such key";
    str name = {0};
    for (bool first = true; jc_next(&c, '{', &first, &name);) {
        if (!str_is(&name, key)) {
            jc_skip(&c);
            continue;
        }
        str_clear(out);
        why = jc_peek(&c) == '"' ? NULL : "is no string";
        if (why)
            jc_skip(&c);
        else
            jc_string(&c, out);
    }
    str_free(&name);
    if (!c.error && jc_peek(&c) != 0) c.error = "more text behind the object";
    *bad = c.bad_surrogates;
    return c.error ? c.error : why;
}

typedef struct decode_job {
    text_batch *b;
    const char *key;
    text_batch_each each;
    void *ctx;
} decode_job;

static void decode_text(const decode_job *j, record *r, str *text, int64_t *bad) {
    *bad = 0;
    str_clear(text);
    if (!r->broken && r->json) r->broken = text_of_json(r, j->key, text, bad);
    if (r->broken) return;
    const str *raw = r->json ? text : &r->bytes;
    if (utf8_valid((const unsigned char *)raw->p, raw->n)) {
        if (!r->json) str_swap(text, &r->bytes);
        return;
    }
    str clean = {0};
    *bad += utf8_sanitize(raw->p, raw->n, &clean);
    str_free(text);
    *text = clean;
}

static void decode(void *arg, int64_t i, int thread) {
    const decode_job *j = arg;
    record *r = &j->b->records[i];
    str *text = &j->b->texts[i];
    text_piece *p = &j->b->pieces[i];
    decode_text(j, r, text, &j->b->bad[i]);
    *p = (text_piece){r->broken ? NULL : text->p ? text->p : "", text->n, r->begins, r->ends};
    if (p->p && j->each) j->each(j->ctx, p, (int)i, thread);
}

static drv_status report(const reader *r, const record *bad) {
    static int named;
    const char *path = reader_files(r, NULL)[bad->file].path, *key = reader_options(r)->key;
    if (!reader_options(r)->strict && named >= NAMED) return DRV_OK;
    drv_status s = drv_fail(DRV_E_DATA, "%s:%lld: \"%s\": %s", path, (long long)bad->number, key,
            bad->broken);
    if (reader_options(r)->strict) return s;
    log_warn("skipped: %s", drv_message());
    if (++named == NAMED) log_warn("more broken records are counted, not named");
    return DRV_OK;
}

drv_status text_batch_read(text_batch *b, reader *r) {
    int64_t bytes = 0;
    for (b->n = 0; b->n < TEXT_BATCH && bytes < TEXT_BATCH_BYTES; b->n++) {
        record *x = &b->records[b->n];
        DRV_TRY(reader_next(r, x, &b->more));
        if (!b->more) return DRV_OK;
        const bool enough = bytes > TEXT_BATCH_LEAST || b->n > TEXT_BATCH / 4;
        if (enough && x->file != x[-1].file) {
            b->files_done = x->file;
            reader_put_back(r, x);
            return DRV_OK;
        }
        bytes += (int64_t)x->bytes.n;
    }
    return DRV_OK;
}

drv_status text_batch_decode(text_batch *b, const reader *r, text_batch_each each, void *ctx) {
    b->skipped = b->replaced = 0;
    par_for(b->n, decode, &(decode_job){b, reader_options(r)->key, each, ctx});
    for (int i = 0; i < b->n; i++) {
        b->replaced += b->bad[i];
        if (!b->records[i].broken) continue;
        b->skipped++;
        DRV_TRY(report(r, &b->records[i]));
    }
    return DRV_OK;
}
