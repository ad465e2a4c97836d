#include "data/text_batch.h"

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
} decode_job;

static void decode(void *arg, int64_t i, int thread) {
    (void)thread;
    const decode_job *j = arg;
    record *r = &j->b->records[i];
    str *text = &j->b->texts[i];
    j->b->bad[i] = 0;
    str_clear(text);
    if (r->broken) return;
    if (r->json) r->broken = text_of_json(r, j->key, text, &j->b->bad[i]);
    if (r->broken) return;
    const str *raw = r->json ? text : &r->bytes;
    if (utf8_valid(raw->p, raw->n)) {
        if (!r->json) str_swap(text, &r->bytes);
        return;
    }
    str clean = {0};
    j->b->bad[i] += utf8_sanitize(raw->p, raw->n, &clean);
    str_free(text);
    *text = clean;
}

static drv_status report(const reader *r, const record *bad) {
    static int named;
    const char *path = reader_files(r, NULL)[bad->file].path, *key = reader_options(r)->key;
    if (!reader_options(r)->strict && named >= NAMED) return DRV_OK;
    drv_status s = drv_fail(
            DRV_E_DATA, "%s:%lld: \"%s\": %s", path, (long long)bad->number, key, bad->broken);
    if (reader_options(r)->strict) return s;
    log_warn("skipped: %s", drv_message());
    if (++named == NAMED) log_warn("more broken records are counted, not named");
    return DRV_OK;
}

drv_status text_batch_read(text_batch *b, reader *r) {
    int64_t bytes = 0;
    for (b->n_records = 0; b->n_records < TEXT_BATCH && bytes < TEXT_BATCH_BYTES; b->n_records++) {
        record *x = &b->records[b->n_records];
        DRV_TRY(reader_next(r, x, &b->more));
        if (!b->more) return DRV_OK;
        const bool enough = bytes > TEXT_BATCH_LEAST || b->n_records > TEXT_BATCH / 4;
        if (enough && x->file != x[-1].file) {
            b->files_done = x->file;
            reader_put_back(r, x);
            return DRV_OK;
        }
        bytes += (int64_t)x->bytes.n;
    }
    return DRV_OK;
}

drv_status text_batch_decode(text_batch *b, const reader *r) {
    b->n = 0;
    b->skipped = b->replaced = 0;
    par_for(b->n_records, decode, &(decode_job){b, reader_options(r)->key});
    for (int i = 0; i < b->n_records; i++) {
        const record *x = &b->records[i];
        if (x->broken) {
            b->skipped++;
            DRV_TRY(report(r, x));
            continue;
        }
        const str *text = &b->texts[i];
        b->replaced += b->bad[i];
        b->pieces[b->n++] = (text_piece){text->p ? text->p : "", text->n, x->begins, x->ends};
    }
    return DRV_OK;
}
