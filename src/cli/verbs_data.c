// drover data: get, build, info, show, verify.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "data/set/build.h"
#include "data/get/hub.h"

static drv_status data_build(arena *a, const cli_args *c) {
    int64_t workers = 0;
    build_stats s;
    build_opts o = {.reader = {.key = cli_get(c, "--json-key", NULL),
                            .separator = cli_get(c, "--separator", NULL),
                            .strict = cli_has(c, "--strict")},
            .append_eod = cli_has(c, "--append-eod")};
    o.inputs = cli_get_all(a, c, "--input", &o.n_inputs);
    if (!o.n_inputs) return drv_fail(DRV_E_USAGE, "data build: --input is missing");
    DRV_TRY(cli_need(c, "--tokenizer", &o.tokenizer));
    DRV_TRY(cli_need(c, "--out", &o.prefix));
    DRV_TRY(cli_get_i64(c, "--workers", 0, 4096, &workers));
    par_set_threads((int)workers);
    DRV_TRY(dataset_build(a, &o, &s));
    log_info("%s.bin: %lld documents, %lld tokens, %.2f bytes a token, %.1f MB/s; skipped %lld "
             "records, replaced %lld invalid byte sequences",
            o.prefix, (long long)s.documents, (long long)s.tokens,
            (double)s.bytes / (double)(s.tokens ? s.tokens : 1),
            (double)s.bytes_now / s.seconds / 1e6, (long long)s.skipped, (long long)s.replaced);
    return DRV_OK;
}

static drv_status data_info(const dataset *d) {
    static const char *const types[] = {"?", "u8", "i8", "i16", "i32", "i64", "?", "?", "u16"};
    printf("prefix     %s\ntype       %s\nsequences  %lld\ndocuments  %lld\ntokens     %lld\n",
            d->prefix, types[d->code], (long long)d->n_sequences, (long long)d->n_documents,
            (long long)d->n_tokens);
    if (d->n_documents)
        printf("mean       %.1f tokens a document\n", (double)d->n_tokens / (double)d->n_documents);
    return DRV_OK;
}

static drv_status data_show(arena *a, const cli_args *c, const dataset *d) {
    int64_t document = 0;
    const char *dir = cli_get(c, "--tokenizer", NULL);
    if (d->n_documents == 0) return drv_fail(DRV_E_DATA, "%s: no documents", d->prefix);
    DRV_TRY(cli_get_i64(c, "--document", 0, d->n_documents - 1, &document));
    const int64_t first = dataset_document_start(d, document),
                  n = dataset_document_start(d, document + 1) - first;
    id_list ids = {.p = mem_alloc(sizeof(int32_t) * (size_t)(n + 1)), .n = n};
    drv_status s = dataset_read(d, first, n, INT32_MAX, ids.p);
    tokenizer *t = NULL;
    if (s == DRV_OK && dir) s = tokenizer_open(a, dir, &t);
    if (s == DRV_OK && t) {
        str text = {0};
        tokenizer_decode(t, ids.p, n, false, &text);
        puts(text.p ? text.p : "");
        str_free(&text);
        tokenizer_close(t);
    } else if (s == DRV_OK) {
        cli_print_ids(&ids, false, true, true);
    }
    free(ids.p);
    return s;
}

static drv_status data_verify(const cli_args *c, const dataset *d) {
    int64_t vocab = INT32_MAX;
    enum { PIECE = 512 };
    int32_t ids[PIECE];
    DRV_TRY(cli_get_i64(c, "--vocab-size", 1, INT32_MAX, &vocab));
    for (int64_t at = 0; at < d->n_tokens; at += PIECE)
        DRV_TRY(dataset_read(d, at, d->n_tokens - at < PIECE ? d->n_tokens - at : PIECE, vocab,
                ids));
    printf("%s: ok, %lld tokens\n", d->prefix, (long long)d->n_tokens);
    return DRV_OK;
}

static const char *last_part(const char *url) {
    const char *end = url + strcspn(url, "?#"), *p = end;
    while (p > url && p[-1] != '/')
        p--;
    return p;
}

// http[s]://...[#sha256=HEX]
static drv_status plain_url(arena *a, const char *url, const char *out, download *d) {
    const char *mark = strstr(url, "#sha256=");
    const char *name = last_part(url);
    const size_t n = strcspn(name, "?#");
    if (n == 0 || name[0] == '.')
        return drv_fail(DRV_E_USAGE, "\"%s\": the URL names no file", url);
    if (mark && strlen(mark + 8) != 64)
        return drv_fail(DRV_E_USAGE, "\"%s\": expected 64 hexadecimal digits behind #sha256=", url);
    *d = (download){.url = mark ? arena_strndup(a, url, (size_t)(mark - url)) : url,
            .path = path_join(a, out, arena_strndup(a, name, n)),
            .size = -1,
            .sha256 = mark ? mark + 8 : NULL};
    return DRV_OK;
}

static drv_status data_get(arena *a, const cli_args *c) {
    const char *what = c->n_positional > 1 ? c->positional[1] : NULL, *endpoint, *token;
    int64_t parallel = 8, tries = 8;
    hub_opts hub = {.revision = cli_get(c, "--revision", "main")};
    if (!what)
        return drv_fail(DRV_E_USAGE,
                "data get: expected hf:ORG/NAME[:CONFIG] or a URL, and --out DIR");
    DRV_TRY(cli_need(c, "--out", &hub.out));
    DRV_TRY(cli_get_i64(c, "--parallel", 1, 64, &parallel));
    DRV_TRY(cli_get_i64(c, "--tries", 1, 1000, &tries));
    endpoint = getenv("HF_ENDPOINT");
    token = getenv("HF_TOKEN");
    if (!endpoint || !*endpoint) endpoint = "https://huggingface.co";
    size_t length = strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/')
        length--;
    hub.endpoint = arena_strndup(a, endpoint, length);
    hub.token = token && *token ? token : NULL;
    download one, *list = &one;
    int n = 1;
    if (str_starts(what, "hf:"))
        DRV_TRY(hub_list(a, what + 3, &hub, &list, &n));
    else if (str_starts(what, "http://") || str_starts(what, "https://"))
        DRV_TRY(plain_url(a, what, hub.out, &one));
    else
        return drv_fail(DRV_E_USAGE, "\"%s\": expected hf:ORG/NAME[:CONFIG] or a URL", what);
    download_opts o = {.parallel = (int)parallel,
            .tries = (int)tries,
            .token = hub.token,
            .host = hub.endpoint};
    download_stats s;
    DRV_TRY(download_files(list, n, &o, &s));
    log_info("%s: %lld files, %lld of them there before; %s in %s", hub.out, (long long)s.files,
            (long long)s.there_already, str_bytes((double)s.bytes), str_duration(s.seconds));
    return DRV_OK;
}

static drv_status run_data(arena *a, int argc, char **argv) {
    cli_args c;
    dataset *d;
    DRV_TRY(cli_parse(a, &verb_data, argc, argv, 1, 2, &c));
    const char *what = c.positional[0];
    if (strcmp(what, "build") == 0) return data_build(a, &c);
    if (strcmp(what, "get") == 0) return data_get(a, &c);
    if (strcmp(what, "info") != 0 && strcmp(what, "show") != 0 && strcmp(what, "verify") != 0)
        return cli_unknown_verb(&c, "get, build, info, show or verify");
    if (c.n_positional < 2)
        return drv_fail(DRV_E_USAGE, "data %s: the data set's PREFIX is missing", what);
    DRV_TRY(dataset_open(a, c.positional[1], &d));
    drv_status s = what[0] == 'i'   ? data_info(d)
                   : what[0] == 's' ? data_show(a, &c, d)
                                    : data_verify(&c, d);
    dataset_close(d);
    return s;
}

static const cli_option data_options[] =
        {{"--input", "PATH...", "build: files, folders, globs, or - for standard input"},
                {"--tokenizer", "DIR", "build: folder of tokenizer.json; show: print text"},
                {"--out", "PREFIX",
                        "build: PREFIX.bin and PREFIX.idx; get: the folder of the files"},
                {"--json-key", "KEY",
                        "build: key of the text in .jsonl, column in .parquet (default text)"},
                {"--separator", "TEXT",
                        "build: cuts .txt files into documents; default: a file is one"},
                {"--append-eod", NULL, "build: put the end-of-text token after each document"},
                {"--workers", "N", "build: threads (default: all cores)"},
                {"--strict", NULL, "build: a broken record stops the run instead of being skipped"},
                {"--revision", "NAME", "get: branch, tag or commit of the data set (default main)"},
                {"--parallel", "N", "get: files at a time (default 8)"},
                {"--tries", "N", "get: for a file that makes no progress (default 8)"},
                {"--document", "N", "show: which (default 0)"},
                {"--vocab-size", "N", "verify: every token must be smaller"}};
const verb verb_data = {"data", "get text, tokenise it into Megatron .bin/.idx, look at data sets",
        "get hf:ORG/NAME[:CONFIG]|URL --out DIR | build --input PATH... --tokenizer DIR --out "
        "PREFIX | "
        "info|show|verify PREFIX",
        "get loads the files of a data set on the Hugging Face hub, or of a URL[#sha256=HEX]: several at a time,\n"
        "checked against their size and hash, gone on with when cut off. HF_TOKEN is sent to the hub alone;\n"
        "HF_ENDPOINT names another one.\n"
        "build reads .txt, .jsonl (each also .gz, .zst) and .parquet, folders in name order; the documents keep\n"
        "that order whatever the number of workers. Killed, it goes on behind the last input file that was done\n"
        "when the same command is given again. info, show and verify open any Megatron data set.",
        data_options, sizeof data_options / sizeof *data_options, run_data};
