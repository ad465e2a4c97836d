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

drv_status bench_tokenizer(arena *a, const cli_args *c) {
    const char *dir = cli_get(c, "--tokenizer", NULL), *input = cli_get(c, "--input", NULL);
    if (!dir || !input)
        return drv_fail(DRV_E_USAGE, "bench tokenizer: --tokenizer and --input are needed");
    int64_t threads = 0, passes = 3;
    DRV_TRY(cli_get_i64(c, "--threads", 0, 4096, &threads));
    DRV_TRY(cli_get_i64(c, "--repeats", 1, 1000, &passes));
    par_set_threads((int)threads);
    double t0 = clock_s();
    tokenizer *t;
    DRV_TRY(tokenizer_open(a, dir, &t));
    encoder **e = ARENA_ARRAY(a, encoder *, par_threads());
    for (int i = 0; i < par_threads(); i++)
        e[i] = encoder_new(t);
    id_list one = {0};
    encoder_run(e[0], "One line.\n", 10, true, &one);
    const double load_s = clock_s() - t0;
    id_list_free(&one);
    file_map f;
    DRV_TRY(file_map_open(input, &f));
    str text = {0};
    utf8_sanitize(f.p, f.n, &text);
    file_map_close(&f);
    text_piece *p;
    const int n = cut_text(t, &text, &p);
    id_list *ids = calloc((size_t)n + 1, sizeof *ids);
    DRV_ASSERT(ids, "out of memory");
    double cold = 0, warm = 0;
    int64_t tokens = 0;
    for (int64_t pass = 0; pass <= passes; pass++) {
        t0 = clock_s();
        tokenizer_tidy(t);
        par_for(n, encode_one, &(encode_job){e, p, ids});
        const double speed = (double)text.n / (clock_s() - t0) / 1e6;
        if (pass == 0)
            cold = speed;
        else if (speed > warm)
            warm = speed;
        progress("pass %lld of %lld: %.1f MB/s", (long long)pass, (long long)passes, speed);
    }
    progress_end();
    for (int i = 0; i < n; i++) {
        tokens += ids[i].n;
        id_list_free(&ids[i]);
    }
    if (cli_has(c, "--json"))
        printf("{\"tokenizer\": \"%s\", \"input_bytes\": %zu, \"tokens\": %lld, \"threads\": %d, "
               "\"cold_mb_per_s\": %.2f, \"warm_mb_per_s\": %.2f, \"load_s\": %.4f}\n",
                dir, text.n, (long long)tokens, par_threads(), cold, warm, load_s);
    else
        printf("%s, %d threads\n"
               "loaded and one line encoded in %.3f s\n"
               "%.1f MB, %lld tokens, %.2f bytes a token\n"
               "cold %.1f MB/s (first pass), warm %.1f MB/s (best of %lld more)\n",
                dir, par_threads(), load_s, (double)text.n / 1e6, (long long)tokens,
                (double)text.n / (double)(tokens ? tokens : 1), cold, warm, (long long)passes);
    for (int i = 0; i < par_threads(); i++)
        encoder_free(e[i]);
    free(ids);
    free(p);
    str_free(&text);
    tokenizer_close(t);
    return DRV_OK;
}

// The same records without files written: read, decoded, encoded; only the encoding is timed.
static drv_status encode_alone(arena *a, const char *dir, const char *input, const char *key,
        double *mb_per_s) {
    tokenizer *t;
    reader *r;
    DRV_TRY(tokenizer_open(a, dir, &t));
    DRV_TRY(reader_open(a, &input, 1, &(reader_opts){.key = key, .whole = !tokenizer_can_cut(t)},
            &r));
    encoder **e = ARENA_ARRAY(a, encoder *, par_threads());
    for (int i = 0; i < par_threads(); i++)
        e[i] = encoder_new(t);
    text_batch *b = text_batch_new();
    id_list *ids = calloc(TEXT_BATCH, sizeof *ids);
    DRV_ASSERT(ids, "out of memory");
    double seconds = 0, bytes = 0;
    drv_status s = DRV_OK;
    while (s == DRV_OK && b->more) {
        s = text_batch_read(b, r);
        if (s == DRV_OK) s = text_batch_decode(b, r, NULL, NULL);
        if (s != DRV_OK) break;
        const double begin = clock_s();
        tokenizer_tidy(t);
        par_for(b->n, encode_one, &(encode_job){e, b->pieces, ids});
        seconds += clock_s() - begin;
        for (int i = 0; i < b->n; i++)
            bytes += (double)b->pieces[i].n;
    }
    for (int i = 0; i < TEXT_BATCH; i++)
        id_list_free(&ids[i]);
    for (int i = 0; i < par_threads(); i++)
        encoder_free(e[i]);
    free(ids);
    text_batch_free(b);
    reader_close(r);
    tokenizer_close(t);
    *mb_per_s = bytes / (seconds > 0 ? seconds : 1) / 1e6;
    return s;
}

drv_status bench_data(arena *a, const cli_args *c) {
    const char *dir = cli_get(c, "--tokenizer", NULL), *input = cli_get(c, "--input", NULL);
    const char *key = cli_get(c, "--json-key", NULL), *tmp = getenv("TMPDIR");
    if (!dir || !input)
        return drv_fail(DRV_E_USAGE, "bench data: --tokenizer and --input are needed");
    int64_t threads = 0;
    DRV_TRY(cli_get_i64(c, "--threads", 0, 4096, &threads));
    par_set_threads((int)threads);
    char *folder = arena_printf(a, "%s/drover-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) return drv_fail(DRV_E_IO, "could not create \"%s\"", folder);
    build_stats s;
    build_opts o = {.reader = {.key = key},
            .inputs = &input,
            .n_inputs = 1,
            .tokenizer = dir,
            .prefix = path_join(a, folder, "set")};
    drv_status status = dataset_build(a, &o, &s);
    drv_status removed = dir_remove(folder);
    DRV_TRY(status);
    DRV_TRY(removed);
    double alone;
    DRV_TRY(encode_alone(a, dir, input, key, &alone));
    const double build = (double)s.all.bytes / s.seconds / 1e6;
    if (cli_has(c, "--json"))
        printf("{\"threads\": %d, \"text_bytes\": %lld, \"documents\": %lld, \"tokens\": %lld, "
               "\"build_mb_per_s\": %.2f, \"tokens_per_s\": %.4g, \"encode_mb_per_s\": %.2f, "
               "\"ratio\": %.3f}\n",
                par_threads(), (long long)s.all.bytes, (long long)s.all.documents,
                (long long)s.all.tokens, build, (double)s.all.tokens / s.seconds, alone,
                build / alone);
    else
        printf("%lld documents, %.1f MB of text, %lld tokens, %d threads\n"
               "build %.1f MB/s, %s tokens/s, files written and tokenizer loaded; encoding alone %.1f MB/s; ratio %.2f\n",
                (long long)s.all.documents, (double)s.all.bytes / 1e6, (long long)s.all.tokens,
                par_threads(), build, str_si((double)s.all.tokens / s.seconds), alone,
                build / alone);
    return DRV_OK;
}
