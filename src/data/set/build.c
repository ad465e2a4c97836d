// The builder: reads and writes beside the encoding, keeps a journal to resume from, says what the
// set is made of.
#include "data/set/build.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/task.h"
#include "data/set/dataset_writer.h"
#include "data/read/text_batch.h"

enum { JOURNAL_EVERY_MS = 500 }; // at most so much work on small files is done again

enum { JOURNAL_VERSION = 2 }; // one of another version is begun anew

typedef struct builder {
    const build_opts *o;
    tokenizer *t;
    reader *r;
    dataset_writer *w;
    encoder **encoders;
    text_batch *batch[2]; // one is encoded; the other is written and read anew meanwhile
    id_list *ids[2];      // of their pieces
    int other;
    id_list *now; // those that are made
    task io;
    char *journal, *about; // PREFIX.build.json, PREFIX.idx.json
    uint64_t task;         // what is built: of another one nothing is gone on with
    double begin, journaled;
    int64_t bytes_before, tokens_before; // by an earlier run
    int64_t largest_id, largest_at;      // in all tokens, -1: none yet; where it is first
    build_stats s;
} builder;

// --- the journal
// The inputs by name, size and time, the tokenizer's file and all options.
static uint64_t task_of(arena *a, const builder *b) {
    str s = {0};
    int n;
    const input_file *f = reader_files(b->r, &n);
    for (int i = 0; i < n; i++) {
        struct stat st = {0};
        if (stat(f[i].path, &st) != 0) st.st_mtime = 0;
        str_printf(&s, "%s %lld %lld\n", f[i].path, (long long)f[i].bytes, (long long)st.st_mtime);
    }
    char *text;
    size_t n_text;
    if (file_read(a, tokenizer_path(b->t), &text, &n_text) == DRV_OK)
        str_printf(&s, "%llx\n", (unsigned long long)XXH3_64bits(text, n_text));
    const reader_opts *o = &b->o->reader;
    str_printf(&s, "%s %s %d %d %d %d", o->key ? o->key : "", o->separator ? o->separator : "",
            o->separator != NULL, o->strict, b->o->append_eod, JOURNAL_VERSION);
    const uint64_t h = XXH3_64bits(s.p, s.n);
    str_free(&s);
    return h;
}

static drv_status write_journal(builder *b) {
    DRV_TRY(dataset_writer_sync(b->w));
    char id[24];
    snprintf(id, sizeof id, "%016llx", (unsigned long long)b->task);
    b->journaled = clock_s();
    return json_write_file(b->journal,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "task", id, "files",
                    (json_int_t)b->s.files, "documents", (json_int_t)b->s.documents, "tokens",
                    (json_int_t)b->s.tokens, "bytes", (json_int_t)b->s.bytes, "skipped",
                    (json_int_t)b->s.skipped, "replaced", (json_int_t)b->s.replaced, "largest_id",
                    (json_int_t)b->largest_id, "largest_at", (json_int_t)b->largest_at));
}

// What an earlier run of the same task has done; nothing if there was none.
static void read_journal(builder *b) {
    json_t *root;
    char id[24];
    const char *found = "";
    if (!file_exists(b->journal)) return;
    build_stats s = {0};
    int64_t largest_id = -1, largest_at = 0;
    snprintf(id, sizeof id, "%016llx", (unsigned long long)b->task);
    if (json_read_file(b->journal, &root) != DRV_OK) return;
    const bool ok = json_get_str(b->journal, root, "task", &found) == DRV_OK &&
                    json_get_i64(b->journal, root, "files", &s.files) == DRV_OK &&
                    json_get_i64(b->journal, root, "documents", &s.documents) == DRV_OK &&
                    json_get_i64(b->journal, root, "tokens", &s.tokens) == DRV_OK &&
                    json_get_i64(b->journal, root, "bytes", &s.bytes) == DRV_OK &&
                    json_get_i64(b->journal, root, "skipped", &s.skipped) == DRV_OK &&
                    json_get_i64(b->journal, root, "replaced", &s.replaced) == DRV_OK &&
                    json_get_i64(b->journal, root, "largest_id", &largest_id) == DRV_OK &&
                    json_get_i64(b->journal, root, "largest_at", &largest_at) == DRV_OK;
    if (ok && strcmp(found, id) == 0) {
        b->s = s;
        b->largest_id = largest_id;
        b->largest_at = largest_at;
        b->bytes_before = s.bytes;
        b->tokens_before = s.tokens;
        int n;
        reader_files(b->r, &n);
        log_info("%s.bin: going on behind file %lld of %d: %lld documents, %lld tokens are there",
                b->o->prefix, (long long)s.files, n, (long long)s.documents, (long long)s.tokens);
    } else {
        log_info("%s: of another build, begun anew", b->journal);
    }
    json_decref(root);
}

// --- building
static void show(const builder *b) {
    int64_t total;
    const int64_t done = reader_bytes(b->r, &total);
    const double t = clock_s() - b->begin, share = total ? (double)done / (double)total : 0;
    const double now = (double)(b->s.bytes - b->bytes_before);
    progress("%5.1f%%  %s documents  %s tokens  %.1f MB/s  %s tokens/s  eta %s", 100 * share,
            str_si((double)b->s.documents), str_si((double)b->s.tokens), now / t / 1e6,
            str_si((double)(b->s.tokens - b->tokens_before) / t),
            share > 0 ? str_duration(t * (1 - share) / share) : "?");
}

// Notes the largest id; `first` is the number of ids[0] among all tokens.
static void note_largest(builder *b, const int32_t *ids, int64_t n, int64_t first) {
    int32_t largest = -1;
    for (int64_t i = 0; i < n; i++)
        largest = ids[i] > largest ? ids[i] : largest;
    if (largest <= b->largest_id) return;
    b->largest_id = largest;
    b->largest_at = first;
    while (*ids++ != largest)
        b->largest_at++;
}

static drv_status write_tokens(builder *b, const int32_t *ids, int64_t n) {
    note_largest(b, ids, n, b->s.tokens);
    b->s.tokens += n;
    return dataset_writer_add(b->w, ids, n);
}

static drv_status write_batch(builder *b, const text_batch *x, const id_list *ids) {
    for (int i = 0; i < x->n; i++) {
        if (!x->pieces[i].p) continue; // a broken record
        DRV_TRY(write_tokens(b, ids[i].p, ids[i].n));
        b->s.bytes += (int64_t)x->pieces[i].n;
        if (!x->pieces[i].ends) continue;
        if (b->o->append_eod) DRV_TRY(write_tokens(b, &(int32_t){tokenizer_eos(b->t)}, 1));
        DRV_TRY(dataset_writer_end_document(b->w));
        b->s.documents++;
    }
    b->s.skipped += x->skipped;
    b->s.replaced += x->replaced;
    const bool file_done = x->files_done > b->s.files;
    if (file_done) b->s.files = x->files_done;
    return file_done && 1000 * (clock_s() - b->journaled) > JOURNAL_EVERY_MS ? write_journal(b)
                                                                             : DRV_OK;
}

static void encode(void *ctx, const text_piece *p, int i, int thread) {
    const builder *b = ctx;
    b->now[i].n = 0;
    encoder_piece(b->encoders[thread], p, true, &b->now[i]);
}

static drv_status write_and_read(void *ctx) {
    builder *b = ctx;
    text_batch *x = b->batch[b->other];
    DRV_TRY(write_batch(b, x, b->ids[b->other]));
    x->n = 0;
    return text_batch_read(x, b->r);
}

// PREFIX.idx.json of what lies there now.
static drv_status write_about(const builder *b) {
    arena *a = arena_new("about");
    dataset *d;
    char *text, hash[24];
    size_t n;
    dataset_about x = {.drover = b->o->version,
            .tokenizer_hash = hash,
            .n_vocab = tokenizer_n_vocab(b->t),
            .eod = -1,
            .largest_id = b->largest_id,
            .largest_at = b->largest_at};
    char *whole = realpath(tokenizer_path(b->t), NULL);
    x.tokenizer = whole ? whole : tokenizer_path(b->t);
    str eod = {0};
    if (b->o->append_eod) {
        x.eod = tokenizer_eos(b->t);
        tokenizer_decode(b->t, &(int32_t){(int32_t)x.eod}, 1, false, &eod);
        x.eod_text = eod.p;
    }
    drv_status status = file_read(a, tokenizer_path(b->t), &text, &n);
    if (status == DRV_OK) {
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH3_64bits(text, n));
        status = dataset_open(a, b->o->prefix, &d);
    }
    if (status == DRV_OK) {
        status = dataset_about_write(d, &x);
        dataset_close(d);
    }
    str_free(&eod);
    free(whole);
    arena_free(a);
    return status;
}

static drv_status run(builder *b) {
    DRV_TRY(text_batch_read(b->batch[0], b->r));
    for (int i = 0;; i = !i) {
        text_batch *x = b->batch[i];
        b->other = !i;
        if (x->more) task_start(&b->io, write_and_read, b);
        b->now = b->ids[i];
        tokenizer_tidy(b->t);
        const drv_status s = text_batch_decode(x, b->r, encode, b);
        const drv_status io = task_wait(&b->io);
        if (s != DRV_OK || io != DRV_OK) return s != DRV_OK ? s : io;
        show(b);
        if (x->more) continue;
        DRV_TRY(write_batch(b, b->batch[!i], b->ids[!i]));
        DRV_TRY(write_batch(b, x, b->ids[i]));
        break;
    }
    if (b->s.documents == 0) return drv_fail(DRV_E_DATA, "the input has no document");
    int n;
    reader_files(b->r, &n);
    b->s.files = n;
    unlink(b->about); // it is of the set that is replaced
    DRV_TRY(dataset_writer_finish(b->w));
    return write_about(b);
}

static drv_status open_all(arena *a, builder *b) {
    const build_opts *o = b->o;
    DRV_TRY(tokenizer_open(a, o->tokenizer, &b->t));
    if (o->append_eod && tokenizer_eos(b->t) < 0)
        return drv_fail(DRV_E_DATA, "%s: no end-of-text token for --append-eod", o->tokenizer);
    reader_opts ro = o->reader;
    ro.whole = !tokenizer_can_cut(b->t);
    DRV_TRY(reader_open(a, o->inputs, o->n_inputs, &ro, &b->r));
    b->journal = arena_printf(a, "%s.build.json", o->prefix);
    b->about = arena_printf(a, "%s.idx.json", o->prefix);
    b->task = task_of(a, b);
    read_journal(b);
    drv_status s = dataset_writer_open(a, o->prefix, tokenizer_n_vocab(b->t), b->s.tokens,
            b->s.documents, &b->w);
    if (s == DRV_E_DATA) { // what the journal speaks of is gone
        log_warn("%s; begun anew", drv_message());
        b->s = (build_stats){0};
        b->bytes_before = b->tokens_before = 0;
        b->largest_id = -1;
        s = dataset_writer_open(a, o->prefix, tokenizer_n_vocab(b->t), 0, 0, &b->w);
    }
    reader_skip_files(b->r, (int)b->s.files);
    return s;
}

drv_status dataset_build(arena *a, const build_opts *o, build_stats *out) {
    builder b = {.o = o, .begin = clock_s(), .largest_id = -1};
    b.journaled = -1; // the first file that is done counts at once
    drv_status s = open_all(a, &b);
    if (s == DRV_OK) {
        for (int i = 0; i < 2; i++) {
            b.batch[i] = text_batch_new();
            b.ids[i] = calloc(TEXT_BATCH, sizeof *b.ids[i]);
            DRV_ASSERT(b.ids[i], "out of memory");
        }
        b.encoders = ARENA_ARRAY(a, encoder *, par_threads());
        for (int i = 0; i < par_threads(); i++)
            b.encoders[i] = encoder_new(b.t);
        s = run(&b);
        // What a journal speaks of stays, to be gone on with.
        const bool keep = s != DRV_OK && file_exists(b.journal);
        dataset_writer_close(b.w, keep);
        if (!keep) unlink(b.journal);
        for (int i = 0; i < par_threads(); i++)
            encoder_free(b.encoders[i]);
        for (int i = 0; i < 2 * TEXT_BATCH; i++)
            id_list_free(&b.ids[i / TEXT_BATCH][i % TEXT_BATCH]);
        for (int i = 0; i < 2; i++) {
            free(b.ids[i]);
            text_batch_free(b.batch[i]);
        }
    }
    progress_end();
    if (b.r) reader_close(b.r);
    tokenizer_close(b.t);
    *out = b.s;
    out->seconds = clock_s() - b.begin;
    out->bytes_now = b.s.bytes - b.bytes_before;
    return s;
}
