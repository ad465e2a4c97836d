// drover bench tokenizer and data: time how fast text becomes ids, and a data set.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "data/set/build.h"
#include "data/read/text_batch.h"
#include "tok/tokenizer.h"

enum { PIECE_BYTES = 1 << 20, BATCH_PIECES = 4096 };

typedef struct encode_job {
    encoder **encoders; // by thread
    const text_piece *pieces;
    id_list *ids;
} encode_job;

static void encode_one(void *arg, int64_t i) {
    const encode_job *j = arg;
    if (!j->pieces[i].p) return;
    j->ids[i].n = 0;
    encoder_piece(j->encoders[par_thread()], &j->pieces[i], true, &j->ids[i]);
}

// Cuts the text into pieces for the threads.
static int cut_text(const tokenizer *t, const str *text, text_piece **out) {
    text_piece *p = NULL;
    int n = 0, cap = 0;
    for (size_t at = 0; at < text->n;) {
        const size_t rest = text->n - at;
        size_t k = 0; // a piece is longer where the text cannot be cut
        for (size_t most = PIECE_BYTES; tokenizer_can_cut(t) && k == 0 && most < rest; most *= 2)
            k = split_cut(text->p + at, most);
        if (k == 0) k = rest;
        MEM_GROW(p, n, cap);
        p[n++] = (text_piece){text->p + at, k, at == 0, at + k == text->n};
        at += k;
    }
    *out = p;
    return n;
}

static encoder **new_encoders(arena *a, const tokenizer *t) {
    encoder **encoders = ARENA_ARRAY(a, encoder *, par_threads());
    for (int i = 0; i < par_threads(); i++)
        encoders[i] = encoder_new(t);
    return encoders;
}

static void free_encoders(encoder **encoders) {
    for (int i = 0; i < par_threads(); i++)
        encoder_free(encoders[i]);
}

typedef struct tokenizer_speed {
    double load_s;         // to open the tokenizer and encode one line
    int64_t bytes, tokens; // of the text
    int64_t passes;        // over the text
    double *mb_per_s;      // of each pass; the first one is cold
} tokenizer_speed;

static drv_status read_text(arena *a, const char *path, str *text) {
    char *bytes;
    size_t n;
    DRV_TRY(file_read_any(a, path, &bytes, &n));
    utf8_sanitize(bytes, n, text);
    return DRV_OK;
}

// Encodes the text again and again.
static void time_passes(arena *a, const tokenizer *tok, encoder **encoders, const str *text,
        tokenizer_speed *out) {
    text_piece *pieces;
    const int n_pieces = cut_text(tok, text, &pieces);
    id_list *ids = ARENA_ARRAY(a, id_list, n_pieces + 1);
    out->bytes = (int64_t)text->n;
    for (int64_t pass = 0; pass < out->passes; pass++) {
        const double begin = clock_s();
        tokenizer_tidy(tok);
        par_for(n_pieces, encode_one, &(encode_job){encoders, pieces, ids});
        out->mb_per_s[pass] = (double)text->n / (clock_s() - begin) / 1e6;
        progress("pass %lld of %lld: %.1f MB/s", (long long)pass + 1, (long long)out->passes,
                out->mb_per_s[pass]);
    }
    progress_end();
    for (int i = 0; i < n_pieces; i++) {
        out->tokens += ids[i].n;
        id_list_free(&ids[i]);
    }
    free(pieces);
}

static drv_status time_tokenizer(arena *a, const char *dir, const char *input,
        tokenizer_speed *out) {
    const double begin = clock_s();
    tokenizer *tok;
    DRV_TRY(tokenizer_open(a, dir, &tok));
    encoder **encoders = new_encoders(a, tok);
    id_list one = {0};
    encoder_run(encoders[0], "One line.\n", 10, true, &one);
    out->load_s = clock_s() - begin;
    id_list_free(&one);
    str text = {0};
    const drv_status status = read_text(a, input, &text);
    if (status == DRV_OK) time_passes(a, tok, encoders, &text, out);
    str_free(&text);
    free_encoders(encoders);
    tokenizer_close(tok);
    return status;
}

static int by_value(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void print_speed(const char *dir, const tokenizer_speed *speed, bool json) {
    const double cold = speed->mb_per_s[0];
    double *warm = speed->mb_per_s + 1;
    const int64_t n = speed->passes - 1;
    qsort(warm, (size_t)n, sizeof *warm, by_value);
    if (json) {
        json_t *o = json_pack("{so sI sI si so so so sf}", "tokenizer", json_of_text(dir),
                "input_bytes", (json_int_t)speed->bytes, "tokens", (json_int_t)speed->tokens,
                "threads", par_threads(), "cold_mb_per_s", json_of_f64(cold), "warm_mb_per_s",
                json_of_f64(warm[n - 1]), "warm_median_mb_per_s", json_of_f64(warm[n / 2]),
                "load_s", speed->load_s);
        cli_puts_json(o, json_dumps(o, JSON_REAL_PRECISION(5)));
    } else {
        printf("%s, %d thread%s\n"
               "loaded and one line encoded in %.3f s\n"
               "%.1f MB, %lld tokens, %.2f bytes per token\n"
               "cold %.1f MB/s (first pass), warm %.1f MB/s (best of %lld more; median %.1f)\n",
                dir, par_threads(), str_plural(par_threads()), speed->load_s,
                (double)speed->bytes / 1e6, (long long)speed->tokens,
                (double)speed->bytes / (double)(speed->tokens ? speed->tokens : 1), cold,
                warm[n - 1], (long long)n, warm[n / 2]);
    }
}

drv_status bench_tokenizer(arena *a, const cli_args *args) {
    const char *dir, *input;
    int64_t repeats = 3;
    DRV_TRY(cli_need(args, "--tokenizer", &dir));
    DRV_TRY(cli_need(args, "--input", &input));
    DRV_TRY(cli_set_threads(args));
    DRV_TRY(cli_get_i64(args, "--repeats", 1, 1000, &repeats));
    tokenizer_speed speed = {.passes = repeats + 1,
            .mb_per_s = ARENA_ARRAY(a, double, repeats + 1)};
    DRV_TRY(time_tokenizer(a, dir, input, &speed));
    print_speed(dir, &speed, cli_has(args, "--json"));
    return DRV_OK;
}

// Reads, decodes and encodes the same records without writing files; only the encoding is timed.
static drv_status encode_alone(arena *a, const char *dir, const char *input, const char *key,
        double *mb_per_s) {
    tokenizer *tok;
    reader *records;
    DRV_TRY(tokenizer_open(a, dir, &tok));
    DRV_TRY(reader_open(a, &input, 1, &(reader_opts){.key = key, .whole = !tokenizer_can_cut(tok)},
            &records));
    encoder **encoders = new_encoders(a, tok);
    text_batch *batch = text_batch_new();
    id_list *ids = ARENA_ARRAY(a, id_list, TEXT_BATCH);
    double seconds = 0, bytes = 0;
    drv_status status = DRV_OK;
    while (status == DRV_OK && batch->more) {
        status = text_batch_read(batch, records);
        if (status == DRV_OK) status = text_batch_decode(batch, records, NULL, NULL);
        if (status != DRV_OK) break;
        const double begin = clock_s();
        tokenizer_tidy(tok);
        par_for(batch->n, encode_one, &(encode_job){encoders, batch->pieces, ids});
        seconds += clock_s() - begin;
        for (int i = 0; i < batch->n; i++)
            bytes += (double)batch->pieces[i].n;
    }
    for (int i = 0; i < TEXT_BATCH; i++)
        id_list_free(&ids[i]);
    free_encoders(encoders);
    text_batch_free(batch);
    reader_close(records);
    tokenizer_close(tok);
    *mb_per_s = bytes / (seconds > 0 ? seconds : 1) / 1e6;
    return status;
}

drv_status bench_data(arena *a, const cli_args *args) {
    const char *key = cli_get(args, "--json-key", NULL), *tmp = getenv("TMPDIR"), *dir, *input;
    DRV_TRY(cli_need(args, "--tokenizer", &dir));
    DRV_TRY(cli_need(args, "--input", &input));
    DRV_TRY(cli_set_threads(args));
    char *folder = arena_printf(a, "%s/drover-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return drv_fail(DRV_E_IO, "could not create the folder \"%s\": %s", folder,
                strerror(errno));
    build_stats stats;
    build_opts opts = {.reader = {.key = key},
            .inputs = &input,
            .n_inputs = 1,
            .tokenizer = dir,
            .prefix = path_join(a, folder, "set")};
    drv_status status = dataset_build(a, &opts, &stats);
    drv_status removed = dir_remove(folder);
    DRV_TRY(status);
    DRV_TRY(removed);
    double alone;
    DRV_TRY(encode_alone(a, dir, input, key, &alone));
    const double build = (double)stats.all.bytes / stats.seconds / 1e6;
    const double tokens_per_s = (double)stats.all.tokens / stats.seconds;
    if (cli_has(args, "--json")) {
        json_t *o = json_pack("{si sI sI sI so so so so}", "threads", par_threads(), "text_bytes",
                (json_int_t)stats.all.bytes, "documents", (json_int_t)stats.all.documents, "tokens",
                (json_int_t)stats.all.tokens, "build_mb_per_s", json_of_f64(build), "tokens_per_s",
                json_of_f64(tokens_per_s), "encode_mb_per_s", json_of_f64(alone), "ratio",
                json_of_f64(build / alone));
        cli_puts_json(o, json_dumps(o, JSON_REAL_PRECISION(5)));
        return DRV_OK;
    }
    printf("%lld documents, %.1f MB of text, %lld tokens, %d thread%s\n"
           "build %.1f MB/s, %s tokens/s, files written and tokenizer loaded; encoding alone %.1f MB/s; ratio %.2f\n",
            (long long)stats.all.documents, (double)stats.all.bytes / 1e6,
            (long long)stats.all.tokens, par_threads(), str_plural(par_threads()), build,
            str_si(tokens_per_s), alone, build / alone);
    return DRV_OK;
}
