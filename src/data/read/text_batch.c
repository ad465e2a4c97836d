// Decodes a batch of records to UTF-8. One buffer holds the raw bytes, one for each thread the
// decoded text; both are kept, since buffers of single records would grow and be dropped by the
// million.
#include "data/read/text_batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_cursor.h"
#include "base/log.h"
#include "base/parallel.h"
#include "tok/unicode.h"

enum { NAMED = 10 }; // broken records that are named; all are counted

typedef struct batch_text { // of one thread, on cache lines of its own
    _Alignas(64) str text;
    str name; // of the current key
} batch_text;

typedef struct batch_span {
    int thread; // in whose text; -1: in raw
    size_t at;
    int64_t bad; // invalid sequences
} batch_span;

text_batch *text_batch_new(void) {
    text_batch *b = mem_alloc(sizeof *b);
    *b = (text_batch){.more = true,
            .n_threads = par_threads(),
            .pieces = mem_alloc(TEXT_BATCH * sizeof *b->pieces),
            .records = mem_alloc(TEXT_BATCH * sizeof *b->records),
            .spans = mem_alloc(TEXT_BATCH * sizeof *b->spans),
            .texts = mem_alloc_lines((size_t)par_threads() * sizeof *b->texts)};
    for (int i = 0; i < b->n_threads; i++)
        b->texts[i] = (batch_text){0};
    return b;
}

void text_batch_free(text_batch *batch) {
    if (!batch) return;
    for (int i = 0; i < batch->n_threads; i++) {
        str_free(&batch->texts[i].text);
        str_free(&batch->texts[i].name);
    }
    str_free(&batch->raw);
    free(batch->pieces);
    free(batch->records);
    free(batch->spans);
    free(batch->texts);
    free(batch);
}

// Errors about the key; all others are about the line.
static const char no_key[] = "has no such key", no_string[] = "is not a string";

// Appends the string under `key`; the last one if there are several. Returns why there is none,
// else NULL.
static const char *text_of_json(const char *line, size_t n_line, const char *key, batch_text *to,
        int64_t *bad) {
    json_cursor c = {.p = line, .end = line + n_line};
    const char *why = no_key;
    const size_t at = to->text.n;
    for (bool first = true; jc_next(&c, '{', &first, &to->name);) {
        if (!str_is(&to->name, key)) {
            jc_skip(&c);
            continue;
        }
        to->text.n = at;
        why = jc_peek(&c) == '"' ? NULL : no_string;
        if (why)
            jc_skip(&c);
        else
            jc_string(&c, &to->text);
    }
    if (!c.error && !jc_at_end(&c)) c.error = "more text after the object";
    *bad = c.bad_surrogates;
    if (c.error && n_line && memchr(line, 0, n_line) == line)
        return "NUL bytes, expected an object";
    return c.error ? c.error : why;
}

typedef struct decode_job {
    text_batch *b;
    const char *key; // NULL: lines as they are
    text_batch_each each;
    void *ctx;
} decode_job;

// Finds the text of record i; false: it has none.
static bool decode_text(const decode_job *job, int64_t i, int thread, size_t *n_bytes) {
    record *from = &job->b->records[i];
    batch_text *to = &job->b->texts[thread];
    batch_span *span = &job->b->spans[i];
    const char *raw = job->b->raw.p ? job->b->raw.p + from->at : "";
    const bool in_json = from->json && job->key;
    *span = (batch_span){.thread = in_json ? thread : -1,
            .at = in_json ? to->text.n : from->at,
            .bad = from->bad};
    *n_bytes = from->n;
    if (from->broken) return false;
    if (from->ids) return true; // no text
    if (in_json) {
        from->broken = text_of_json(raw, from->n, job->key, to, &span->bad);
        if (from->broken) {
            to->text.n = span->at;
            return false;
        }
        raw = to->text.p ? to->text.p + span->at : "";
        *n_bytes = to->text.n - span->at;
    }
    if (utf8_valid((const unsigned char *)raw, *n_bytes)) return true;
    str clean = {0}; // rare: a copy of its own, as the text may move
    span->bad += utf8_sanitize(raw, *n_bytes, &clean);
    if (span->thread < 0) span->at = to->text.n;
    span->thread = thread;
    to->text.n = span->at;
    str_add(&to->text, clean.p ? clean.p : "", clean.n);
    *n_bytes = clean.n;
    str_free(&clean);
    return true;
}

static const char *text_at(const text_batch *batch, const batch_span *span) {
    const str *s = span->thread < 0 ? &batch->raw : &batch->texts[span->thread].text;
    return s->p ? s->p + span->at : "";
}

static void decode(void *arg, int64_t i) {
    const decode_job *j = arg;
    record *r = &j->b->records[i];
    text_piece *p = &j->b->pieces[i];
    size_t n;
    const bool has_text = decode_text(j, i, par_thread(), &n);
    *p = (text_piece){has_text ? text_at(j->b, &j->b->spans[i]) : NULL, has_text ? n : 0, r->begins,
            r->ends};
    if (p->p && j->each) r->broken = j->each(j->ctx, p, (int)i, par_thread());
    if (r->broken) p->p = NULL;
}

// Appends "; it has "id", "messages"" and advice.
static void add_keys(const reader *in, const char *line, size_t n_line, str *out) {
    enum { MOST = 6 };
    static const char *const talk[] = {"messages", "conversations", "prompt", "instruction",
            "question"};
    json_cursor c = {.p = line, .end = line + n_line};
    str key = {0};
    bool talks = false;
    int n = 0;
    for (bool first = true; jc_next(&c, '{', &first, &key); n++) {
        if (n < MOST) str_printf(out, "%s\"%.40s\"", n ? ", " : "; it has ", key.p ? key.p : "");
        for (size_t i = 0; i < sizeof talk / sizeof *talk; i++)
            talks |= str_is(&key, talk[i]);
        jc_skip(&c);
    }
    if (n > MOST) str_puts(out, ", ...");
    const char *hint = reader_options(in)->conversations;
    if (n > 0) str_printf(out, "; %s", talks && hint ? hint : "--json-key NAME takes another");
    str_free(&key);
}

static drv_status report_key(const reader *in, const record *bad, const char *line) {
    const char *name = reader_files(in, NULL)[bad->file].name, *key = reader_options(in)->key;
    str more = {0};
    if (bad->broken == no_key) add_keys(in, line, bad->n, &more);
    const drv_status status = drv_fail(DRV_E_DATA, "%s:%lld: \"%s\": %s%s", name,
            (long long)bad->number, key, bad->broken, more.p ? more.p : "");
    str_free(&more);
    return status;
}

static drv_status report(const reader *in, const record *bad, const char *line) {
    static int named, last_file = -1;
    const char *name = reader_files(in, NULL)[bad->file].name;
    const bool says_more = named < NAMED && (bad->broken != no_key || bad->file != last_file);
    if (!reader_options(in)->strict && !says_more) return DRV_OK;
    if (bad->broken == no_key) last_file = bad->file; // one warning for each file
    const bool of_key = bad->broken == no_key || bad->broken == no_string;
    const drv_status status =
            of_key ? report_key(in, bad, line)
                   : drv_fail(DRV_E_DATA, "%s:%lld: %s", name, (long long)bad->number, bad->broken);
    if (reader_options(in)->strict) return status;
    log_warn("skipped: %s", drv_message());
    if (++named == NAMED) log_warn("further broken records are counted, but not listed");
    return DRV_OK;
}

// Warns once for each file, and says how to convert it.
static void report_replaced(const reader *in, const record *of, int64_t n) {
    static int named, last_file = -1;
    if (of->file == last_file || named >= NAMED) return;
    last_file = of->file;
    log_warn("%s:%lld: not UTF-8: %lld invalid byte sequence%s, read as U+FFFD; to convert it: iconv -f latin1 -t utf8",
            reader_files(in, NULL)[of->file].name, (long long)of->number, (long long)n,
            str_plural(n));
    if (++named == NAMED) log_warn("further files with such bytes are not listed");
}

drv_status text_batch_read(text_batch *batch, reader *in) {
    batch->n = 0;
    str_clear(&batch->raw);
    while (batch->n < TEXT_BATCH && batch->raw.n < TEXT_BATCH_BYTES) {
        reader_event event;
        DRV_TRY(reader_next(in, &batch->raw, &batch->records[batch->n], &event));
        if (event == READER_END) {
            batch->more = false;
            return DRV_OK;
        }
        if (event == READER_RECORD) {
            batch->n++;
            continue;
        }
        // Small files share a batch; the one that ends it is done when the batch is.
        if (batch->raw.n <= TEXT_BATCH_MIN && batch->n <= TEXT_BATCH / 4) continue;
        batch->files_done = reader_files_done(in);
        return DRV_OK;
    }
    return DRV_OK;
}

drv_status text_batch_decode(text_batch *batch, const reader *in, text_batch_each each, void *ctx) {
    batch->skipped = batch->replaced = 0;
    for (int i = 0; i < batch->n_threads; i++)
        str_clear(&batch->texts[i].text);
    const reader_opts *o = reader_options(in);
    par_for(batch->n, decode, &(decode_job){batch, o->lines ? NULL : o->key, each, ctx});
    for (int i = 0; i < batch->n; i++) {
        batch->replaced += batch->spans[i].bad;
        if (batch->spans[i].bad) report_replaced(in, &batch->records[i], batch->spans[i].bad);
        // A thread's text may have moved since the piece was handed out.
        if (batch->pieces[i].p) batch->pieces[i].p = text_at(batch, &batch->spans[i]);
        if (!batch->records[i].broken) continue;
        batch->skipped++;
        DRV_TRY(report(in, &batch->records[i],
                batch->raw.p ? batch->raw.p + batch->records[i].at : ""));
    }
    return DRV_OK;
}
