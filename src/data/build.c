#include "data/build.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"

enum { BATCH_DOCUMENTS = 1024, BATCH_BYTES = 8 << 20 };

typedef struct batch {
    str text[BATCH_DOCUMENTS];
    id_list ids[BATCH_DOCUMENTS];
    int n;
    int64_t bytes;
    encoder **encoders; // by thread
    bool append_eod;
    int32_t eod;
} batch;

static void encode_document(void *arg, int64_t i, int thread) {
    batch *b = arg;
    b->ids[i].n = 0;
    encoder_run(
            b->encoders[thread], b->text[i].p ? b->text[i].p : "", b->text[i].n, true, &b->ids[i]);
    if (b->append_eod) id_list_add(&b->ids[i], b->eod);
}

static drv_status read_batch(reader *r, batch *b, bool *more) {
    b->n = 0;
    b->bytes = 0;
    *more = true;
    while (b->n < BATCH_DOCUMENTS && b->bytes < BATCH_BYTES) {
        DRV_TRY(reader_next(r, &b->text[b->n], more));
        if (!*more) break;
        b->bytes += (int64_t)b->text[b->n].n;
        b->n++;
    }
    return DRV_OK;
}

static void show(const reader *r, const build_stats *s, double begin) {
    reader_progress p = reader_where(r);
    const double t = clock_s() - begin,
                 share = p.bytes_total ? (double)p.bytes_done / (double)p.bytes_total : 0;
    progress("%5.1f%%  %s documents  %s tokens  %.1f MB/s  %s tokens/s  eta %s", 100 * share,
            str_si((double)s->documents), str_si((double)s->tokens), (double)s->bytes / t / 1e6,
            str_si((double)s->tokens / t), share > 0 ? str_duration(t * (1 - share) / share) : "?");
}

static drv_status build(reader *r, dataset_writer *w, batch *b, build_stats *s, double begin) {
    bool more = true;
    while (more) {
        DRV_TRY(read_batch(r, b, &more));
        par_for(b->n, encode_document, b);
        for (int i = 0; i < b->n; i++) {
            DRV_TRY(dataset_writer_add(w, b->ids[i].p, b->ids[i].n));
            s->tokens += b->ids[i].n;
        }
        s->documents += b->n;
        s->bytes += b->bytes;
        show(r, s, begin);
    }
    if (s->documents == 0) return drv_fail(DRV_E_DATA, "the input has no document");
    return dataset_writer_finish(w);
}

drv_status dataset_build(arena *a, const build_opts *o, build_stats *out) {
    tokenizer *t;
    reader *r;
    dataset_writer *w;
    const double begin = clock_s();
    *out = (build_stats){0};
    DRV_TRY(tokenizer_open(a, o->tokenizer, &t));
    if (o->append_eod && t->eos < 0)
        return drv_fail(DRV_E_DATA, "%s: no end-of-text token for --append-eod", o->tokenizer);
    DRV_TRY(reader_open(a, o->inputs, o->n_inputs, &o->reader, &r));
    drv_status s = dataset_writer_open(a, o->prefix, t->n_vocab, &w);
    if (s == DRV_OK) {
        batch *b = ARENA_NEW(a, batch);
        b->append_eod = o->append_eod;
        b->eod = t->eos;
        b->encoders = ARENA_ARRAY(a, encoder *, par_threads());
        for (int i = 0; i < par_threads(); i++)
            b->encoders[i] = encoder_new(t);
        s = build(r, w, b, out, begin);
        dataset_writer_abort(w);
        for (int i = 0; i < par_threads(); i++)
            encoder_free(b->encoders[i]);
        for (int i = 0; i < BATCH_DOCUMENTS; i++) {
            str_free(&b->text[i]);
            id_list_free(&b->ids[i]);
        }
    }
    progress_end();
    out->skipped = reader_where(r).skipped;
    out->replaced = reader_where(r).replaced;
    out->seconds = clock_s() - begin;
    reader_close(r);
    tokenizer_close(t);
    return s;
}
