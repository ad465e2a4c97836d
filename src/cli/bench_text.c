// drover bench tokenizer and data: how fast text becomes ids, and a data set.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parallel.h"
#include "cli/bench.h"
#include "data/set/build.h"
#include "data/read/text_batch.h"
#include "tok/tokenizer.h"

enum { PIECE_BYTES = 1 << 20, BATCH_PIECES = 4096 };

typedef struct encode_job {
    encoder **encoders; // by thread
    const text_piece *pieces;
    id_list *ids;
} encode_job;

static void encode_one(void *arg, int64_t i, int thread) {
    const encode_job *j = arg;
    if (!j->pieces[i].p) return;
    j->ids[i].n = 0;
    encoder_piece(j->encoders[thread], &j->pieces[i], true, &j->ids[i]);
}

// The text in pieces that the threads share.
static int cut_text(const tokenizer *t, const str *text, text_piece **out) {
    text_piece *p = NULL;
    int n = 0, cap = 0;
    for (size_t at = 0; at < text->n;) {
        const size_t rest = text->n - at;
        size_t k = 0; // where it cannot be cut the piece is longer
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

// MB/s of a first pass and of the best of `passes` more.
static void time_passes(tokenizer *tok, encode_job *job, int n_pieces, size_t n_bytes,
        int64_t passes, double *cold, double *warm) {
    *cold = *warm = 0;
    for (int64_t pass = 0; pass <= passes; pass++) {
        const double begin = clock_s();
        tokenizer_tidy(tok);
        par_for(n_pieces, encode_one, job);
        const double speed = (double)n_bytes / (clock_s() - begin) / 1e6;
        if (pass == 0)
            *cold = speed;
        else if (speed > *warm)
            *warm = speed;
        progress("pass %lld of %lld: %.1f MB/s", (long long)pass, (long long)passes, speed);
    }
    progress_end();
}

drv_status bench_tokenizer(arena *a, const cli_args *args) {
    const char *dir = cli_get(args, "--tokenizer", NULL), *input = cli_get(args, "--input", NULL);
    if (!dir || !input)
        return drv_fail(DRV_E_USAGE, "bench tokenizer: --tokenizer and --input are needed");
    int64_t threads = 0, passes = 3;
    DRV_TRY(cli_get_i64(args, "--threads", 0, 4096, &threads));
    DRV_TRY(cli_get_i64(args, "--repeats", 1, 1000, &passes));
    par_set_threads((int)threads);
    const double begin = clock_s();
    tokenizer *tok;
    DRV_TRY(tokenizer_open(a, dir, &tok));
    encoder **encoders = ARENA_ARRAY(a, encoder *, par_threads());
    for (int i = 0; i < par_threads(); i++)
        encoders[i] = encoder_new(tok);
    id_list one = {0};
    encoder_run(encoders[0], "One line.\n", 10, true, &one);
    const double load_s = clock_s() - begin;
    id_list_free(&one);
    file_map file;
    DRV_TRY(file_map_open(input, &file));
    str text = {0};
    utf8_sanitize(file.p, file.n, &text);
    file_map_close(&file);
    text_piece *pieces;
    const int n_pieces = cut_text(tok, &text, &pieces);
    id_list *ids = ARENA_ARRAY(a, id_list, n_pieces + 1);
    double cold, warm;
    int64_t tokens = 0;
    time_passes(tok, &(encode_job){encoders, pieces, ids}, n_pieces, text.n, passes, &cold, &warm);
    for (int i = 0; i < n_pieces; i++) {
        tokens += ids[i].n;
        id_list_free(&ids[i]);
    }
    if (cli_has(args, "--json"))
        printf("{\"tokenizer\": \"%s\", \"input_bytes\": %zu, \"tokens\": %lld, \"threads\": %d, "
               "\"cold_mb_per_s\": %.2f, \"warm_mb_per_s\": %.2f, \"load_s\": %.4f}\n",
                dir, text.n, (long long)tokens, par_threads(), cold, warm, load_s);
    else
        printf("%s, %d threads\n"
               "loaded and one line encoded in %.3f s\n"
               "%.1f MB, %lld tokens, %.2f bytes per token\n"
               "cold %.1f MB/s (first pass), warm %.1f MB/s (best of %lld more)\n",
                dir, par_threads(), load_s, (double)text.n / 1e6, (long long)tokens,
                (double)text.n / (double)(tokens ? tokens : 1), cold, warm, (long long)passes);
    for (int i = 0; i < par_threads(); i++)
        encoder_free(encoders[i]);
    free(pieces);
    str_free(&text);
    tokenizer_close(tok);
    return DRV_OK;
}

// The same records without files written: read, decoded, encoded; only the encoding is timed.
static drv_status encode_alone(arena *a, const char *dir, const char *input, const char *key,
        double *mb_per_s) {
    tokenizer *tok;
    reader *records;
    DRV_TRY(tokenizer_open(a, dir, &tok));
    DRV_TRY(reader_open(a, &input, 1, &(reader_opts){.key = key, .whole = !tokenizer_can_cut(tok)},
            &records));
    encoder **encoders = ARENA_ARRAY(a, encoder *, par_threads());
    for (int i = 0; i < par_threads(); i++)
        encoders[i] = encoder_new(tok);
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
    for (int i = 0; i < par_threads(); i++)
        encoder_free(encoders[i]);
    text_batch_free(batch);
    reader_close(records);
    tokenizer_close(tok);
    *mb_per_s = bytes / (seconds > 0 ? seconds : 1) / 1e6;
    return status;
}

drv_status bench_data(arena *a, const cli_args *args) {
    const char *dir = cli_get(args, "--tokenizer", NULL), *input = cli_get(args, "--input", NULL);
    const char *key = cli_get(args, "--json-key", NULL), *tmp = getenv("TMPDIR");
    if (!dir || !input)
        return drv_fail(DRV_E_USAGE, "bench data: --tokenizer and --input are needed");
    int64_t threads = 0;
    DRV_TRY(cli_get_i64(args, "--threads", 0, 4096, &threads));
    par_set_threads((int)threads);
    char *folder = arena_printf(a, "%s/drover-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) return drv_fail(DRV_E_IO, "could not create \"%s\"", folder);
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
    if (cli_has(args, "--json"))
        printf("{\"threads\": %d, \"text_bytes\": %lld, \"documents\": %lld, \"tokens\": %lld, "
               "\"build_mb_per_s\": %.2f, \"tokens_per_s\": %.4g, \"encode_mb_per_s\": %.2f, "
               "\"ratio\": %.3f}\n",
                par_threads(), (long long)stats.all.bytes, (long long)stats.all.documents,
                (long long)stats.all.tokens, build, (double)stats.all.tokens / stats.seconds, alone,
                build / alone);
    else
        printf("%lld documents, %.1f MB of text, %lld tokens, %d threads\n"
               "build %.1f MB/s, %s tokens/s, files written and tokenizer loaded; encoding alone %.1f MB/s; ratio %.2f\n",
                (long long)stats.all.documents, (double)stats.all.bytes / 1e6,
                (long long)stats.all.tokens, par_threads(), build,
                str_si((double)stats.all.tokens / stats.seconds), alone, build / alone);
    return DRV_OK;
}
