// Encodes one batch while another one is written and read, and keeps a journal from which the build
// resumes.
#include "data/set/build.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/task.h"
#include "data/read/text_batch.h"
#include "data/set/build_ids.h"
#include "data/set/build_journal.h"
#include "data/set/dataset_writer.h"
#include "data/set/pair_marks.h"
#include "data/sft/pair.h"
#include "data/sft/sft_record.h"

enum { JOURNAL_EVERY_MS = 500 };  // of work on small files, which a resumed build repeats
enum { WHY_BYTES = 512 };         // of the reason why a record is skipped
enum { JOURNAL_VERSION = 6 };     // a build with a journal of another version starts over
enum { ENDED_TWICE_PERCENT = 2 }; // of the documents, above which a line says so

typedef struct thread_ids {        // of one thread, on cache lines of its own
    _Alignas(64) sft_example made; // without roles, unless conversations are built
} thread_ids;

typedef struct encoded_piece {
    int thread;
    int64_t at, n; // in that thread's list
    int64_t inner; // the first of its ends in that thread's list `inner`
    int n_inner;   // documents but the last one
    bool begun;    // the text itself began with the token that the tokenizer puts in front
    bool misfit;   // the template cannot render it: the build ends
} encoded_piece;

// A batch and its ids. The lists are reused for the next batch.
typedef struct encoded_batch {
    text_batch *text;
    encoded_piece *pieces;
    thread_ids *ids;
    char (*why)[WHY_BYTES]; // of each record that is broken
} encoded_batch;

typedef struct builder {
    const build_opts *opts;
    tokenizer *tokenizer;
    const sft_format *format; // NULL: texts, or ids with labels
    reader *reader;
    dataset_writer *writer;
    encoder **encoders;     // one for each thread
    encoded_batch batch[2]; // one is encoded while the other is written and read
    encoded_batch *now, *other;
    task io;
    file_lock lock;
    char *journal;  // PREFIX.build.json
    bool resumable; // standard input cannot be read again
    uint64_t task;  // hash of inputs and options: only the same task is resumed
    uint64_t tokenizer_hash;
    int32_t eod;  // -1: none
    int32_t last; // the last token of the document that is written; -1: it has none yet
    double begin, journaled;
    bool begun_said, turns_said;
    build_counts counts, before; // before: by an earlier run
    int file;                    // the one that is written, and what became of its records
    int64_t n_used, n_skipped;
} builder;

// --- the journal
// Returns the hash of the names, sizes and times of the inputs, the tokenizer's file and the options.
static uint64_t task_of(const builder *build) {
    str text = {0};
    int n_files;
    const input_file *files = reader_files(build->reader, &n_files);
    for (int i = 0; i < n_files; i++) {
        struct stat st = {0};
        const bool there = stat(files[i].path, &st) == 0;
        str_printf(&text, "%s %lld %lld.%09ld\n", files[i].path, (long long)files[i].bytes,
                there ? (long long)st.st_mtim.tv_sec : 0, there ? st.st_mtim.tv_nsec : 0);
    }
    const reader_opts *o = reader_options(build->reader);
    const id_opts *ids = &o->ids;
    str_printf(&text, "%d %d %d %d %d %d %d\n", ids->type.bytes, ids->type.is_signed,
            ids->bin.where, ids->bin.token, ids->npy.where, ids->npy.token, ids->rows.where);
    str_printf(&text, "%016llx %s %s %d %d %d %d", (unsigned long long)build->tokenizer_hash,
            o->key ? o->key : "", o->separator ? o->separator : "", o->separator != NULL, o->strict,
            build->eod, JOURNAL_VERSION);
    if (build->opts->sft) // also of ids with labels, which need no format
        str_printf(&text, " %s %016llx", build->opts->preference ? "preference" : "sft",
                build->format ? (unsigned long long)sft_format_hash(build->format) : 0);
    const uint64_t hash = XXH3_64bits(text.p, text.n);
    str_free(&text);
    return hash;
}

static drv_status write_journal(builder *build) {
    DRV_TRY(dataset_writer_sync(build->writer));
    build->journaled = clock_s();
    return build_journal_write(build->journal, build->task, &build->counts);
}

static drv_status read_journal(builder *build) {
    int n;
    bool found;
    reader_files(build->reader, &n);
    DRV_TRY(build_journal_read(build->journal, build->task, &build->counts, &found));
    if (!found) return DRV_OK;
    build->before = build->counts;
    log_info("%s.bin: resumed after file %lld of %d: %lld documents, %lld tokens are there",
            build->opts->prefix, (long long)build->counts.files, n,
            (long long)build->counts.documents, (long long)build->counts.tokens);
    return DRV_OK;
}

// --- writing
static void show(const builder *build) {
    int64_t total;
    const int64_t done = reader_bytes(build->reader, &total);
    const double t = clock_s() - build->begin, share = total ? (double)done / (double)total : 0;
    const double now = (double)(build->counts.bytes - build->before.bytes);
    progress("%5.1f%%  %s documents  %s tokens  %.1f MB/s  %s tokens/s  eta %s", 100 * share,
            str_si((double)build->counts.documents), str_si((double)build->counts.tokens),
            now / t / 1e6, str_si((double)(build->counts.tokens - build->before.tokens) / t),
            share > 0 ? str_duration(t * (1 - share) / share) : "?");
}

static void note_largest(build_counts *counts, const int32_t *ids, int64_t n) {
    int32_t largest = -1;
    for (int64_t i = 0; i < n; i++)
        largest = ids[i] > largest ? ids[i] : largest;
    if (largest <= counts->largest_id) return;
    counts->largest_id = largest;
    counts->largest_at = counts->tokens;
    while (*ids++ != largest)
        counts->largest_at++;
}

static drv_status write_tokens(builder *build, const int32_t *ids, int64_t n) {
    note_largest(&build->counts, ids, n);
    build->counts.tokens += n;
    build->last = ids[n - 1];
    return dataset_writer_add(build->writer, ids, n);
}

static drv_status write_roles(builder *build, const char *roles, int64_t n) {
    build_counts *counts = &build->counts;
    const int64_t before = counts->answers;
    for (int64_t i = 0; i < n; i++) {
        counts->answers += roles[i] != ROLE_OTHER;
        counts->last_answers += roles[i] == ROLE_LAST_ANSWER;
    }
    counts->no_answer += counts->answers == before;
    return dataset_writer_add_roles(build->writer, roles, n);
}

static drv_status write_ids(builder *build, const sft_example *made, int64_t at, int64_t n) {
    if (n) DRV_TRY(write_tokens(build, made->ids.p + at, n));
    return build->opts->sft ? write_roles(build, made->roles.p + at, n) : DRV_OK;
}

static void say_turns(builder *build) {
    if (build->turns_said || build->opts->preference) return;
    build->turns_said = true;
    log_info("%s renders earlier turns differently from the last one: in a conversation with several answers each answer becomes a document of its own, with the messages up to it",
            sft_format_name(build->format));
}

// Refuses a file that the user named, beside others, if none of its records was usable: a set
// without it is not what was asked for.
static drv_status end_file(builder *build) {
    const int64_t n_used = build->n_used, n_skipped = build->n_skipped;
    int n_files;
    const input_file *ended = &reader_files(build->reader, &n_files)[build->file];
    build->n_used = build->n_skipped = 0;
    if (n_used || !n_skipped || n_files == 1 || !ended->named) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: no usable record: %lld skipped, for the reason above; leave the file out or mend it",
            ended->name, (long long)n_skipped);
}

static drv_status write_batch(builder *build, const encoded_batch *batch) {
    build_counts *counts = &build->counts;
    for (int i = 0; i < batch->text->n; i++) {
        const text_piece *piece = &batch->text->pieces[i];
        const encoded_piece *ids = &batch->pieces[i];
        const int file = batch->text->records[i].file;
        if (file != build->file) DRV_TRY(end_file(build));
        build->file = file;
        *(piece->p ? &build->n_used : &build->n_skipped) += 1;
        if (!piece->p) continue; // a broken record
        if (ids->begun && !build->begun_said) {
            build->begun_said = true;
            log_info("texts begin with %s already, which the tokenizer would add to each: it is added only once",
                    tokenizer_token_text(build->tokenizer,
                            batch->ids[ids->thread].made.ids.p[ids->at]));
        }
        const sft_example *made = &batch->ids[ids->thread].made;
        int64_t at = ids->at;
        for (int k = 0; k < ids->n_inner; k++) {
            const int64_t end = made->inner.p[ids->inner + k];
            DRV_TRY(write_ids(build, made, at, end - at));
            DRV_TRY(dataset_writer_end_document(build->writer));
            counts->documents++;
            at = end;
        }
        if (ids->n_inner > 0) say_turns(build);
        DRV_TRY(write_ids(build, made, at, ids->at + ids->n - at));
        counts->bytes += (int64_t)piece->n;
        if (!piece->ends) continue;
        const bool ends = build->eod >= 0 && build->last == build->eod,
                   is_text = !batch->text->records[i].ids;
        counts->ended_twice += ends && is_text;
        if (build->eod >= 0 && (!ends || is_text)) DRV_TRY(write_tokens(build, &build->eod, 1));
        build->last = -1;
        DRV_TRY(dataset_writer_end_document(build->writer));
        counts->documents++;
    }
    counts->skipped += batch->text->skipped;
    counts->replaced += batch->text->replaced;
    const bool file_done = batch->text->files_done > counts->files;
    if (file_done) DRV_TRY(end_file(build)); // before the journal has it
    if (file_done) counts->files = batch->text->files_done;
    const bool due = 1000 * (clock_s() - build->journaled) > JOURNAL_EVERY_MS;
    return file_done && build->resumable && due ? write_journal(build) : DRV_OK;
}

static void say_ended_twice(const builder *build) {
    const build_counts *counts = &build->counts;
    if (100 * counts->ended_twice <= ENDED_TWICE_PERCENT * counts->documents) return;
    log_info("%lld of %lld documents end with %s themselves, and now with two of them: without --append-eod texts stay as they are",
            (long long)counts->ended_twice, (long long)counts->documents,
            tokenizer_token_text(build->tokenizer, build->eod));
}

// Writes PREFIX.idx.json for the set that is in place now.
static drv_status write_about(const builder *build) {
    arena *a = arena_new("about");
    dataset *set;
    const uint64_t texts = tokenizer_texts_hash(build->tokenizer, build->counts.largest_id + 1);
    dataset_about about = {.drover = build->opts->version,
            .texts_hash = arena_printf(a, "%016llx", (unsigned long long)texts),
            .tokenizer_hash = arena_printf(a, "%016llx", (unsigned long long)build->tokenizer_hash),
            .n_vocab = tokenizer_n_vocab(build->tokenizer),
            .eod = build->eod,
            .eod_text = build->eod < 0 ? NULL : tokenizer_token_text(build->tokenizer, build->eod),
            .largest_id = build->counts.largest_id,
            .largest_at = build->counts.largest_at,
            .template = build->format ? sft_format_name(build->format) : NULL,
            .template_text = build->format ? sft_format_given(build->format) : NULL,
            .turn_end = build->format ? sft_format_turn_end(build->format, build->tokenizer) : -1,
            .answers = build->counts.answers,
            .last_answers = build->counts.last_answers,
            .pairs = build->opts->preference ? build->counts.documents / 2 : 0};
    char pairs_hash[17], *whole = realpath(tokenizer_path(build->tokenizer), NULL);
    if (about.turn_end >= 0)
        about.turn_end_text = tokenizer_token_text(build->tokenizer, (int32_t)about.turn_end);
    about.tokenizer = whole ? whole : tokenizer_path(build->tokenizer);
    drv_status status = dataset_open(a, build->opts->prefix, &set);
    if (status == DRV_OK) {
        if (dataset_has_roles(set)) about.roles_hash = set->roles_hash;
        if (about.pairs) about.pairs_hash = pairs_hash;
        if (about.pairs) status = pair_marks_write(set, about.pairs, pairs_hash);
        if (status == DRV_OK) status = dataset_about_write(set, &about);
        dataset_close(set);
    }
    free(whole);
    arena_free(a);
    return status;
}

// --- the loop
static drv_status encode_pair(const builder *build, const text_piece *piece, int thread,
        sft_example *made) {
    const int64_t at = made->ids.n;
    DRV_TRY(pair_encode(build->format, build->encoders[thread], piece->p, piece->n, made));
    id_list_add(&made->inner, (int32_t)(at + made->n_chosen));
    return DRV_OK;
}

static const char *encode(void *ctx, const text_piece *piece, int i, int thread) {
    const builder *build = ctx;
    encoded_batch *batch = build->now;
    sft_example *made = &batch->ids[thread].made;
    const int64_t at = made->ids.n;
    drv_status status = DRV_OK;
    const int64_t inner = made->inner.n;
    made->misfit = false;
    made->n_chosen = 0;
    if (batch->text->records[i].ids)
        status = build_take_ids(&batch->text->records[i], piece->p, piece->n, build->tokenizer,
                made);
    else if (build->opts->preference)
        status = encode_pair(build, piece, thread, made);
    else if (build->format)
        status = sft_encode(build->format, build->encoders[thread], piece->p, piece->n, made);
    else if (build->opts->sft)
        status = drv_fail(DRV_E_DATA, "a conversation among token ids, expected ids and labels");
    else
        encoder_piece(build->encoders[thread], piece, true, &made->ids);
    const bool is_text = !build->opts->sft && !build->opts->preference &&
                         !batch->text->records[i].ids && piece->begins;
    batch->pieces[i] = (encoded_piece){.thread = thread,
            .begun = is_text && tokenizer_begin_once(build->tokenizer, &made->ids, at, NULL),
            .at = at,
            .n = made->ids.n - at,
            .inner = inner,
            .n_inner = (int)(made->inner.n - inner),
            .misfit = made->misfit};
    if (status == DRV_OK) return NULL;
    snprintf(batch->why[i], WHY_BYTES, "%s", drv_message());
    return batch->pieces[i].misfit ? NULL : batch->why[i];
}

// Returns the error for the first record that ends the build.
static drv_status check_fit(const builder *build) {
    const encoded_batch *batch = build->now;
    for (int i = 0; i < batch->text->n; i++)
        if (batch->text->pieces[i].p && batch->pieces[i].misfit)
            return drv_fail(DRV_E_DATA, "%s:%lld: %s",
                    reader_files(build->reader, NULL)[batch->text->records[i].file].name,
                    (long long)batch->text->records[i].number, batch->why[i]);
    return DRV_OK;
}

static drv_status write_and_read(void *ctx) {
    builder *build = ctx;
    DRV_TRY(write_batch(build, build->other));
    build->other->text->n = 0;
    return text_batch_read(build->other->text, build->reader);
}

static drv_status encode_all(builder *build) {
    DRV_TRY(text_batch_read(build->batch[0].text, build->reader));
    for (int i = 0;; i = !i) {
        build->now = &build->batch[i];
        build->other = &build->batch[!i];
        const bool more = build->now->text->more;
        if (more) task_start(&build->io, write_and_read, build);
        for (int k = 0; k < par_threads(); k++) {
            build->now->ids[k].made.ids.n = 0;
            build->now->ids[k].made.inner.n = 0;
            str_clear(&build->now->ids[k].made.roles);
        }
        tokenizer_tidy(build->tokenizer);
        drv_status status = text_batch_decode(build->now->text, build->reader, encode, build);
        if (status == DRV_OK) status = check_fit(build);
        const drv_status io = task_wait(&build->io);
        if (status != DRV_OK || io != DRV_OK) return status != DRV_OK ? status : io;
        show(build);
        if (more) continue;
        DRV_TRY(write_batch(build, build->other));
        return write_batch(build, build->now);
    }
}

static drv_status run(builder *build) {
    int n;
    DRV_TRY(encode_all(build));
    DRV_TRY(end_file(build));
    if (build->counts.documents == 0)
        return reader_no_document(build->reader, build->counts.skipped);
    reader_files(build->reader, &n);
    build->counts.files = n;
    DRV_TRY(dataset_writer_finish(build->writer));
    say_ended_twice(build);
    return write_about(build);
}

// --- opening
// Finds the token that an option names: digits are an id, anything else a token's text.
static drv_status find_token(const builder *build, const char *option, const char *named,
        int32_t *out) {
    const int32_t n_vocab = tokenizer_n_vocab(build->tokenizer);
    int64_t id;
    if (str_to_i64(named, &id)) {
        if (id < 0 || id >= n_vocab)
            return drv_fail(DRV_E_USAGE, "%s is %s, expected an id from 0 to %d of %s", option,
                    named, n_vocab - 1, build->opts->tokenizer);
    } else {
        id = tokenizer_id(build->tokenizer, named);
        if (id < 0)
            return drv_fail(DRV_E_USAGE, "%s is \"%s\", which is not a token of %s (%d tokens)",
                    option, named, build->opts->tokenizer, n_vocab);
    }
    *out = (int32_t)id;
    return DRV_OK;
}

static drv_status find_eod(builder *build) {
    const build_opts *opts = build->opts;
    build->eod = -1;
    if (!opts->append_eod) return DRV_OK;
    if (opts->eod)
        DRV_TRY(find_token(build, "--eod", opts->eod, &build->eod));
    else
        build->eod = tokenizer_role(build->tokenizer, ROLE_EOS);
    if (build->eod < 0)
        return drv_fail(DRV_E_USAGE,
                "%s: the tokenizer names no end-of-text token (eos_token in "
                "tokenizer_config.json); choose one by --eod TOKEN, its text or its id",
                opts->tokenizer);
    log_info("%s (id %d) is put after each document",
            tokenizer_token_text(build->tokenizer, build->eod), build->eod);
    return DRV_OK;
}

// Finds where records that are token ids are cut into documents.
static drv_status find_cuts(const builder *build, id_opts *ids) {
    const build_opts *opts = build->opts;
    const char *before = opts->cut_before, *named = before ? before : opts->cut_after;
    const int32_t bos = tokenizer_role(build->tokenizer, ROLE_BOS),
                  eos = tokenizer_role(build->tokenizer, ROLE_EOS);
    if (named) {
        id_cut cut = {.where = before ? CUT_BEFORE : CUT_AFTER};
        DRV_TRY(find_token(build, before ? "--cut-before" : "--cut-after", named, &cut.token));
        ids->bin = ids->npy = ids->rows = cut;
        return DRV_OK;
    }
    const int32_t first = bos >= 0 ? bos : eos; // GPT-2 has one token for both
    if (first >= 0) ids->bin = (id_cut){CUT_BEFORE, first};
    if (eos >= 0) ids->npy = (id_cut){CUT_AFTER, eos};
    return DRV_OK;
}

static drv_status open_writer(arena *a, builder *build) {
    const build_opts *opts = build->opts;
    drv_status status = dataset_writer_open(a, opts->prefix, tokenizer_n_vocab(build->tokenizer),
            build->counts.tokens, build->counts.documents, opts->sft, &build->writer);
    if (status == DRV_E_DATA) { // what the journal names is gone
        log_warn("%s; the build starts over", drv_message());
        build->counts = build->before = (build_counts){.largest_id = -1};
        status = dataset_writer_open(a, opts->prefix, tokenizer_n_vocab(build->tokenizer), 0, 0,
                opts->sft, &build->writer);
    }
    return status;
}

// Opens the chat template that conversations need.
static drv_status open_format(arena *a, builder *build) {
    const build_opts *opts = build->opts;
    if (!opts->sft) return DRV_OK;
    if (opts->append_eod)
        return drv_fail(DRV_E_USAGE,
                "--append-eod and --eod are for texts: a conversation is ended by its template");
    bool labelled = false;
    if (!opts->preference) DRV_TRY(reader_starts_with_labels(build->reader, &labelled));
    if (labelled && (opts->template || opts->date))
        return drv_fail(DRV_E_USAGE,
                "--%s has no effect on token ids with labels, which the inputs have",
                opts->template ? "template" : "date");
    if (labelled) return DRV_OK; // a tokenizer without a template will do
    if (opts->preference && opts->template && strcmp(opts->template, "none") == 0)
        return pair_texts_open(a, build->tokenizer, opts->tokenizer, &build->format);
    return sft_format_open(a, build->tokenizer, opts->tokenizer, opts->template, opts->date,
            &build->format);
}

static drv_status check_inputs(const builder *build) {
    int n;
    const input_file *files = reader_files(build->reader, &n);
    for (int i = 0; i < n; i++) {
        const bool is_ids = files[i].kind == INPUT_BIN || files[i].kind == INPUT_NPY;
        if (build->opts->sft && (is_ids || files[i].kind == INPUT_TEXT))
            return drv_fail(DRV_E_USAGE,
                    "\"%s\": --%s reads JSON (.jsonl, .json), CSV and TSV (each also .gz and .zst), Parquet, Arrow, .mds and .tar",
                    files[i].name, build->opts->preference ? "preference" : "sft");
        if (is_ids && build->opts->append_eod)
            return drv_fail(DRV_E_USAGE,
                    "\"%s\": --append-eod and --eod are for texts and lists of ids; this file is a stream of ids, which has the tokens between its documents already",
                    files[i].name);
    }
    return DRV_OK;
}

// Refuses to replace an input, or files that belong to no data set because there is no .idx. Those
// that a killed build left have none either, but have that build's journal.
static drv_status check_outputs(arena *a, const builder *build) {
    static const char *const endings[] = {".bin", ".idx", ".idx.json", ".roles", ".pairs"};
    const char *prefix = build->opts->prefix;
    const bool replaces =
            file_exists(arena_printf(a, "%s.idx", prefix)) || file_exists(build->journal);
    int n;
    const input_file *files = reader_files(build->reader, &n);
    for (size_t k = 0; k < sizeof endings / sizeof *endings; k++) {
        const char *path = arena_printf(a, "%s%s", prefix, endings[k]);
        for (int i = 0; i < n; i++)
            if (file_is_same(files[i].path, path))
                return drv_fail(DRV_E_USAGE,
                        "--out is \"%s\", whose file \"%s\" is an input, expected another prefix",
                        prefix, path);
        if (!replaces && file_exists(path))
            return drv_fail(DRV_E_USAGE,
                    "--out is \"%s\", but \"%s\" does not belong to a data set: it has no .idx beside it; choose another prefix, or remove the file",
                    prefix, path);
    }
    return DRV_OK;
}

static drv_status open_all(arena *a, builder *build) {
    const build_opts *opts = build->opts;
    int n_files;
    DRV_TRY(tokenizer_open(a, opts->tokenizer, &build->tokenizer));
    DRV_TRY(dataset_tokenizer_hash(tokenizer_path(build->tokenizer), &build->tokenizer_hash));
    DRV_TRY(find_eod(build));
    reader_opts ro = opts->reader;
    ro.lines = opts->sft;
    ro.fields = opts->preference ? pair_record_fields : opts->sft ? sft_record_fields : NULL;
    ro.ids.taken = !opts->preference;
    ro.ids.n_vocab = tokenizer_n_vocab(build->tokenizer);
    DRV_TRY(find_cuts(build, &ro.ids));
    ro.strict |= opts->preference;
    ro.whole = !tokenizer_can_cut(build->tokenizer);
    DRV_TRY(reader_open(a, opts->inputs, opts->n_inputs, &ro, &build->reader));
    DRV_TRY(check_inputs(build));
    DRV_TRY(open_format(a, build));
    const input_file *files = reader_files(build->reader, &n_files);
    build->resumable = true;
    for (int i = 0; i < n_files; i++)
        build->resumable &= strcmp(files[i].path, "-") != 0;
    build->journal = arena_printf(a, "%s.build.json", opts->prefix);
    DRV_TRY(check_outputs(a, build));
    DRV_TRY(dir_make_parent(opts->prefix));
    DRV_TRY(file_lock_take(a, arena_printf(a, "%s.build.lock", opts->prefix),
            arena_printf(a, "the data set \"%s\"", opts->prefix), &build->lock));
    if (file_exists(arena_printf(a, "%s.idx", opts->prefix)))
        log_info("%s.bin and .idx are there already; they are replaced when this build is complete",
                opts->prefix);
    build->task = task_of(build);
    DRV_TRY(read_journal(build));
    DRV_TRY(open_writer(a, build));
    reader_skip_files(build->reader, (int)build->counts.files);
    build->encoders = ARENA_ARRAY(a, encoder *, par_threads());
    for (int i = 0; i < par_threads(); i++)
        build->encoders[i] = encoder_new(build->tokenizer);
    for (int i = 0; i < 2; i++) {
        encoded_batch *batch = &build->batch[i];
        *batch = (encoded_batch){.text = text_batch_new(),
                .pieces = mem_alloc(TEXT_BATCH * sizeof *batch->pieces),
                .ids = mem_alloc_lines((size_t)par_threads() * sizeof *batch->ids),
                .why = mem_alloc(TEXT_BATCH * sizeof *batch->why)};
        for (int k = 0; k < par_threads(); k++)
            batch->ids[k] = (thread_ids){0};
    }
    return DRV_OK;
}

static void close_all(builder *build, bool done) {
    if (build->writer) {
        // Files that a journal names stay, to be resumed.
        const bool keep = !done && file_exists(build->journal);
        dataset_writer_close(build->writer, keep);
        if (!keep) unlink(build->journal);
    }
    for (int i = 0; build->encoders && i < par_threads(); i++)
        encoder_free(build->encoders[i]);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; build->batch[i].ids && k < par_threads(); k++)
            sft_example_free(&build->batch[i].ids[k].made);
        free(build->batch[i].ids);
        free(build->batch[i].why);
        free(build->batch[i].pieces);
        text_batch_free(build->batch[i].text);
    }
    if (build->reader) reader_close(build->reader);
    if (build->tokenizer) tokenizer_close(build->tokenizer);
    file_lock_release(&build->lock);
}

drv_status dataset_build(arena *a, const build_opts *opts, build_stats *out) {
    builder build = {.opts = opts,
            .lock = {.fd = -1},
            .begin = clock_s(),
            .journaled = -1, // the first file that is done counts at once
            .last = -1,
            .counts.largest_id = -1};
    drv_status status = open_all(a, &build);
    if (status == DRV_OK) status = run(&build);
    progress_end();
    close_all(&build, status == DRV_OK);
    *out = (build_stats){.all = build.counts,
            .seconds = clock_s() - build.begin,
            .bytes_now = build.counts.bytes - build.before.bytes};
    return status;
}
