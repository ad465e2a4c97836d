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
#include "base/log.h"
#include "base/parallel.h"
#include "base/task.h"
#include "data/read/text_batch.h"
#include "data/set/build_journal.h"
#include "data/set/dataset_writer.h"

enum { JOURNAL_EVERY_MS = 500 }; // at most so much work on small files is done again
enum { JOURNAL_VERSION = 2 };    // one of another version is begun anew

typedef struct thread_ids { // of one thread, on cache lines of its own
    _Alignas(64) id_list list;
} thread_ids;

typedef struct encoded_piece {
    int thread;
    int64_t at, n; // in that thread's list
} encoded_piece;

// A batch and its ids. The lists are kept from batch to batch: lists of single pieces would grow by
// the million.
typedef struct encoded_batch {
    text_batch *text;
    encoded_piece *pieces;
    thread_ids *ids;
} encoded_batch;

typedef struct builder {
    const build_opts *o;
    tokenizer *t;
    reader *r;
    dataset_writer *w;
    encoder **encoders;     // one for each thread
    encoded_batch batch[2]; // one is encoded; the other is written and read anew meanwhile
    encoded_batch *now, *other;
    task io;
    file_lock lock;
    char *journal, *about; // PREFIX.build.json, PREFIX.idx.json
    bool resumable;        // standard input cannot be read again
    uint64_t task;         // what is built: only the same one is resumed
    uint64_t tokenizer_hash;
    int32_t eod; // -1: none
    double begin, journaled;
    build_counts counts, before; // before: by an earlier run
} builder;

// --- the journal
// The inputs by name, size and time, the tokenizer's file and all options.
static uint64_t task_of(const builder *b) {
    str s = {0};
    int n;
    const input_file *files = reader_files(b->r, &n);
    for (int i = 0; i < n; i++) {
        struct stat st = {0};
        const bool there = stat(files[i].path, &st) == 0;
        str_printf(&s, "%s %lld %lld.%09ld\n", files[i].path, (long long)files[i].bytes,
                there ? (long long)st.st_mtim.tv_sec : 0, there ? st.st_mtim.tv_nsec : 0);
    }
    const reader_opts *o = &b->o->reader;
    str_printf(&s, "%016llx %s %s %d %d %d %d", (unsigned long long)b->tokenizer_hash,
            o->key ? o->key : "", o->separator ? o->separator : "", o->separator != NULL, o->strict,
            b->eod, JOURNAL_VERSION);
    const uint64_t hash = XXH3_64bits(s.p, s.n);
    str_free(&s);
    return hash;
}

static drv_status write_journal(builder *b) {
    DRV_TRY(dataset_writer_sync(b->w));
    b->journaled = clock_s();
    return build_journal_write(b->journal, b->task, &b->counts);
}

static void read_journal(builder *b) {
    int n;
    reader_files(b->r, &n);
    if (!b->resumable || !build_journal_read(b->journal, b->task, &b->counts)) return;
    b->before = b->counts;
    log_info("%s.bin: resumed behind file %lld of %d: %lld documents, %lld tokens are there",
            b->o->prefix, (long long)b->counts.files, n, (long long)b->counts.documents,
            (long long)b->counts.tokens);
}

// --- writing
static void show(const builder *b) {
    int64_t total;
    const int64_t done = reader_bytes(b->r, &total);
    const double t = clock_s() - b->begin, share = total ? (double)done / (double)total : 0;
    const double now = (double)(b->counts.bytes - b->before.bytes);
    progress("%5.1f%%  %s documents  %s tokens  %.1f MB/s  %s tokens/s  eta %s", 100 * share,
            str_si((double)b->counts.documents), str_si((double)b->counts.tokens), now / t / 1e6,
            str_si((double)(b->counts.tokens - b->before.tokens) / t),
            share > 0 ? str_duration(t * (1 - share) / share) : "?");
}

static void note_largest(build_counts *c, const int32_t *ids, int64_t n) {
    int32_t largest = -1;
    for (int64_t i = 0; i < n; i++)
        largest = ids[i] > largest ? ids[i] : largest;
    if (largest <= c->largest_id) return;
    c->largest_id = largest;
    c->largest_at = c->tokens;
    while (*ids++ != largest)
        c->largest_at++;
}

static drv_status write_tokens(builder *b, const int32_t *ids, int64_t n) {
    note_largest(&b->counts, ids, n);
    b->counts.tokens += n;
    return dataset_writer_add(b->w, ids, n);
}

static drv_status write_batch(builder *b, const encoded_batch *x) {
    build_counts *c = &b->counts;
    for (int i = 0; i < x->text->n; i++) {
        const text_piece *piece = &x->text->pieces[i];
        const encoded_piece *ids = &x->pieces[i];
        if (!piece->p) continue; // a broken record
        if (ids->n) DRV_TRY(write_tokens(b, x->ids[ids->thread].list.p + ids->at, ids->n));
        c->bytes += (int64_t)piece->n;
        if (!piece->ends) continue;
        if (b->eod >= 0) DRV_TRY(write_tokens(b, &b->eod, 1));
        DRV_TRY(dataset_writer_end_document(b->w));
        c->documents++;
    }
    c->skipped += x->text->skipped;
    c->replaced += x->text->replaced;
    const bool file_done = x->text->files_done > c->files;
    if (file_done) c->files = x->text->files_done;
    const bool due = 1000 * (clock_s() - b->journaled) > JOURNAL_EVERY_MS;
    return file_done && b->resumable && due ? write_journal(b) : DRV_OK;
}

// PREFIX.idx.json of what lies there now.
static drv_status write_about(const builder *b) {
    arena *a = arena_new("about");
    dataset *d;
    dataset_about x = {.drover = b->o->version,
            .tokenizer_hash = arena_printf(a, "%016llx", (unsigned long long)b->tokenizer_hash),
            .n_vocab = tokenizer_n_vocab(b->t),
            .eod = b->eod,
            .eod_text = b->eod < 0 ? NULL : tokenizer_token_text(b->t, b->eod),
            .largest_id = b->counts.largest_id,
            .largest_at = b->counts.largest_at};
    char *whole = realpath(tokenizer_path(b->t), NULL);
    x.tokenizer = whole ? whole : tokenizer_path(b->t);
    drv_status status = dataset_open(a, b->o->prefix, &d);
    if (status == DRV_OK) {
        status = dataset_about_write(d, &x);
        dataset_close(d);
    }
    free(whole);
    arena_free(a);
    return status;
}

// --- the loop
static void encode(void *ctx, const text_piece *p, int i, int thread) {
    const builder *b = ctx;
    id_list *list = &b->now->ids[thread].list;
    const int64_t at = list->n;
    encoder_piece(b->encoders[thread], p, true, list);
    b->now->pieces[i] = (encoded_piece){thread, at, list->n - at};
}

static drv_status write_and_read(void *ctx) {
    builder *b = ctx;
    DRV_TRY(write_batch(b, b->other));
    b->other->text->n = 0;
    return text_batch_read(b->other->text, b->r);
}

static drv_status encode_all(builder *b) {
    DRV_TRY(text_batch_read(b->batch[0].text, b->r));
    for (int i = 0;; i = !i) {
        b->now = &b->batch[i];
        b->other = &b->batch[!i];
        const bool more = b->now->text->more;
        if (more) task_start(&b->io, write_and_read, b);
        for (int k = 0; k < par_threads(); k++)
            b->now->ids[k].list.n = 0;
        tokenizer_tidy(b->t);
        const drv_status status = text_batch_decode(b->now->text, b->r, encode, b);
        const drv_status io = task_wait(&b->io);
        if (status != DRV_OK || io != DRV_OK) return status != DRV_OK ? status : io;
        show(b);
        if (more) continue;
        DRV_TRY(write_batch(b, b->other));
        return write_batch(b, b->now);
    }
}

static drv_status run(builder *b) {
    int n;
    DRV_TRY(encode_all(b));
    if (b->counts.documents == 0) return drv_fail(DRV_E_DATA, "the input has no document");
    reader_files(b->r, &n);
    b->counts.files = n;
    unlink(b->about); // it is of the set that is replaced
    DRV_TRY(dataset_writer_finish(b->w));
    return write_about(b);
}

// --- opening
// The token behind each document: digits are an id, anything else a token's text.
static drv_status find_eod(builder *b) {
    const build_opts *o = b->o;
    const int32_t n_vocab = tokenizer_n_vocab(b->t);
    int64_t id = -1;
    b->eod = -1;
    if (!o->append_eod) return DRV_OK;
    if (!o->eod) {
        id = tokenizer_eos(b->t);
        if (id < 0)
            return drv_fail(DRV_E_USAGE,
                    "%s: the tokenizer names no end-of-text token (eos_token in "
                    "tokenizer_config.json); choose one by --eod TOKEN, its text or its id",
                    o->tokenizer);
    } else if (str_to_i64(o->eod, &id)) {
        if (id < 0 || id >= n_vocab)
            return drv_fail(DRV_E_USAGE, "--eod is %s, expected an id from 0 to %d of %s", o->eod,
                    n_vocab - 1, o->tokenizer);
    } else {
        id = tokenizer_id(b->t, o->eod);
        if (id < 0)
            return drv_fail(DRV_E_USAGE, "--eod is \"%s\", which is no token of %s (%d tokens)",
                    o->eod, o->tokenizer, n_vocab);
    }
    b->eod = (int32_t)id;
    log_info("%s (id %d) is put behind each document", tokenizer_token_text(b->t, b->eod), b->eod);
    return DRV_OK;
}

static drv_status open_writer(arena *a, builder *b) {
    const build_opts *o = b->o;
    drv_status status = dataset_writer_open(a, o->prefix, tokenizer_n_vocab(b->t), b->counts.tokens,
            b->counts.documents, &b->w);
    if (status == DRV_E_DATA) { // what the journal speaks of is gone
        log_warn("%s; the build begins anew", drv_message());
        b->counts = b->before = (build_counts){.largest_id = -1};
        status = dataset_writer_open(a, o->prefix, tokenizer_n_vocab(b->t), 0, 0, &b->w);
    }
    return status;
}

static drv_status open_all(arena *a, builder *b) {
    const build_opts *o = b->o;
    int n_files;
    DRV_TRY(tokenizer_open(a, o->tokenizer, &b->t));
    DRV_TRY(dataset_tokenizer_hash(tokenizer_path(b->t), &b->tokenizer_hash));
    DRV_TRY(find_eod(b));
    reader_opts ro = o->reader;
    ro.whole = !tokenizer_can_cut(b->t);
    DRV_TRY(reader_open(a, o->inputs, o->n_inputs, &ro, &b->r));
    const input_file *files = reader_files(b->r, &n_files);
    b->resumable = true;
    for (int i = 0; i < n_files; i++)
        b->resumable &= strcmp(files[i].path, "-") != 0;
    DRV_TRY(dir_make_parent(o->prefix));
    DRV_TRY(file_lock_take(a, arena_printf(a, "%s.build.lock", o->prefix),
            arena_printf(a, "the data set \"%s\"", o->prefix), &b->lock));
    b->journal = arena_printf(a, "%s.build.json", o->prefix);
    b->about = arena_printf(a, "%s.idx.json", o->prefix);
    b->task = task_of(b);
    read_journal(b);
    DRV_TRY(open_writer(a, b));
    reader_skip_files(b->r, (int)b->counts.files);
    b->encoders = ARENA_ARRAY(a, encoder *, par_threads());
    for (int i = 0; i < par_threads(); i++)
        b->encoders[i] = encoder_new(b->t);
    for (int i = 0; i < 2; i++) {
        encoded_batch *x = &b->batch[i];
        *x = (encoded_batch){.text = text_batch_new(),
                .pieces = mem_alloc(TEXT_BATCH * sizeof *x->pieces),
                .ids = mem_alloc_lines((size_t)par_threads() * sizeof *x->ids)};
        for (int k = 0; k < par_threads(); k++)
            x->ids[k] = (thread_ids){0};
    }
    return DRV_OK;
}

static void close_all(builder *b, bool done) {
    if (b->w) {
        // What a journal speaks of stays, to be resumed.
        const bool keep = !done && file_exists(b->journal);
        dataset_writer_close(b->w, keep);
        if (!keep) unlink(b->journal);
    }
    for (int i = 0; b->encoders && i < par_threads(); i++)
        encoder_free(b->encoders[i]);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; b->batch[i].ids && k < par_threads(); k++)
            id_list_free(&b->batch[i].ids[k].list);
        free(b->batch[i].ids);
        free(b->batch[i].pieces);
        text_batch_free(b->batch[i].text);
    }
    if (b->r) reader_close(b->r);
    if (b->t) tokenizer_close(b->t);
    file_lock_release(&b->lock);
}

drv_status dataset_build(arena *a, const build_opts *o, build_stats *out) {
    builder b = {.o = o,
            .lock = {.fd = -1},
            .begin = clock_s(),
            .journaled = -1, // the first file that is done counts at once
            .counts.largest_id = -1};
    drv_status status = open_all(a, &b);
    if (status == DRV_OK) status = run(&b);
    progress_end();
    close_all(&b, status == DRV_OK);
    *out = (build_stats){.all = b.counts,
            .seconds = clock_s() - b.begin,
            .bytes_now = b.counts.bytes - b.before.bytes};
    return status;
}
