// drover data: get, build, info, show, verify.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "data/set/build.h"
#include "data/get/hub.h"

static drv_status data_build(arena *a, const cli_args *args) {
    int64_t workers = 0;
    build_stats s;
    build_opts o = {.reader = {.key = cli_get(args, "--json-key", NULL),
                            .separator = cli_get(args, "--separator", NULL),
                            .strict = cli_has(args, "--strict")},
            .append_eod = cli_has(args, "--append-eod")};
    o.inputs = cli_get_all(a, args, "--input", &o.n_inputs);
    if (!o.n_inputs) return drv_fail(DRV_E_USAGE, "data build: --input is missing");
    DRV_TRY(cli_need(args, "--tokenizer", &o.tokenizer));
    DRV_TRY(cli_need(args, "--out", &o.prefix));
    DRV_TRY(cli_get_i64(args, "--workers", 0, 4096, &workers));
    par_set_threads((int)workers);
    DRV_TRY(dataset_build(a, &o, &s));
    log_info("%s.bin: %lld documents, %lld tokens, %.2f bytes a token, %.1f MB/s; skipped %lld "
             "records, replaced %lld invalid byte sequences",
            o.prefix, (long long)s.documents, (long long)s.tokens,
            (double)s.bytes / (double)(s.tokens ? s.tokens : 1),
            (double)s.bytes_now / s.seconds / 1e6, (long long)s.skipped, (long long)s.replaced);
    return DRV_OK;
}

static drv_status data_info(arena *a, const cli_args *args, const dataset *d) {
    (void)a, (void)args;
    static const char *const types[] = {"?", "u8", "i8", "i16", "i32", "i64", "?", "?", "u16"};
    printf("prefix     %s\ntype       %s\nsequences  %lld\ndocuments  %lld\ntokens     %lld\n",
            d->prefix, types[d->code], (long long)d->n_sequences, (long long)d->n_documents,
            (long long)d->n_tokens);
    if (d->n_documents)
        printf("mean       %.1f tokens a document\n", (double)d->n_tokens / (double)d->n_documents);
    return DRV_OK;
}

static drv_status data_show(arena *a, const cli_args *args, const dataset *d) {
    int64_t document = 0;
    const char *dir = cli_get(args, "--tokenizer", NULL);
    if (d->n_documents == 0) return drv_fail(DRV_E_DATA, "%s: no documents", d->prefix);
    DRV_TRY(cli_get_i64(args, "--document", 0, d->n_documents - 1, &document));
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

static drv_status data_verify(arena *a, const cli_args *args, const dataset *d) {
    (void)a;
    int64_t vocab = INT32_MAX;
    enum { PIECE = 512 };
    int32_t ids[PIECE];
    DRV_TRY(cli_get_i64(args, "--vocab-size", 1, INT32_MAX, &vocab));
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

static drv_status data_get(arena *a, const cli_args *args) {
    const char *what = args->positional[0], *endpoint, *token;
    int64_t parallel = 8, tries = 8;
    hub_opts hub = {.revision = cli_get(args, "--revision", "main")};
    DRV_TRY(cli_need(args, "--out", &hub.out));
    DRV_TRY(cli_get_i64(args, "--parallel", 1, 64, &parallel));
    DRV_TRY(cli_get_i64(args, "--tries", 1, 1000, &tries));
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

// --- the verb
typedef drv_status (*data_look)(arena *a, const cli_args *args, const dataset *d);

static drv_status look(arena *a, const cli_args *args, data_look at) {
    dataset *d;
    DRV_TRY(dataset_open(a, args->positional[0], &d));
    drv_status status = at(a, args, d);
    dataset_close(d);
    return status;
}

static drv_status run_info(arena *a, const cli_args *args) {
    return look(a, args, data_info);
}

static drv_status run_show(arena *a, const cli_args *args) {
    return look(a, args, data_show);
}

static drv_status run_verify(arena *a, const cli_args *args) {
    return look(a, args, data_verify);
}

static const cli_option get_options[] = {{"--out", "DIR", "where the files go"},
        {"--revision", "NAME", "branch, tag or commit of the data set (default main)"},
        {"--parallel", "N", "files at a time (default 8)"},
        {"--tries", "N", "for a file that makes no progress (default 8)"}};
static const cli_option build_options[] = {{"--input", "PATH...",
                                                   "files, folders, globs, or - for standard input"},
        {"--tokenizer", "DIR", "folder of tokenizer.json"},
        {"--out", "PREFIX", "writes PREFIX.bin and PREFIX.idx"},
        {"--json-key", "KEY", "of the text in .jsonl, column in .parquet (default text)"},
        {"--separator", "TEXT", "cuts .txt files into documents; default: a file is one"},
        {"--append-eod", NULL, "put the end-of-text token after each document"},
        {"--workers", "N", "threads (default: all cores)"},
        {"--strict", NULL, "a broken record stops the run instead of being skipped"}};
static const cli_option show_options[] = {{"--tokenizer", "DIR", "print text, not ids"},
        {"--document", "N", "which (default 0)"}};
static const cli_option verify_options[] = {{"--vocab-size", "N", "every token must be smaller"}};

static const verb subverbs[] = {
        {
                .name = "get",
                .summary = "load the files of a data set",
                .usage = "hf:ORG/NAME[:CONFIG]|URL --out DIR",
                .help = "Loads the files of a data set on the Hugging Face hub, or of a URL[#sha256=HEX]: several\n"
                        "at a time, checked against their size and hash, resumed when cut off. HF_TOKEN is sent\n"
                        "to the hub alone; HF_ENDPOINT names another one.",
                .options = get_options,
                .n_options = sizeof get_options / sizeof *get_options,
                .min_positional = 1,
                .max_positional = 1,
                .run = data_get,
        },
        {
                .name = "build",
                .summary = "tokenise text into Megatron .bin/.idx",
                .usage = "--input PATH... --tokenizer DIR --out PREFIX",
                .help = "Reads .txt, .jsonl (each also .gz, .zst) and .parquet, folders in name order; the\n"
                        "documents keep that order whatever the number of workers. Killed, it resumes behind the\n"
                        "last input file that was done when the same command is given again.",
                .options = build_options,
                .n_options = sizeof build_options / sizeof *build_options,
                .run = data_build,
        },
        {
                .name = "info",
                .summary = "type and counts of a data set",
                .usage = "PREFIX",
                .help = "Opens any Megatron data set.",
                .min_positional = 1,
                .max_positional = 1,
                .run = run_info,
        },
        {
                .name = "show",
                .summary = "print a document",
                .usage = "PREFIX [--document N] [--tokenizer DIR]",
                .help = "Prints the ids of a document, or its text when the tokenizer is given.",
                .options = show_options,
                .n_options = sizeof show_options / sizeof *show_options,
                .min_positional = 1,
                .max_positional = 1,
                .run = run_show,
        },
        {
                .name = "verify",
                .summary = "check every token of a data set",
                .usage = "PREFIX [--vocab-size N]",
                .help = "Reads all tokens; a failure names the place.",
                .options = verify_options,
                .n_options = sizeof verify_options / sizeof *verify_options,
                .min_positional = 1,
                .max_positional = 1,
                .run = run_verify,
        },
};

const verb verb_data = {
        .name = "data",
        .summary = "get text, tokenise it into Megatron .bin/.idx, look at data sets",
        .subverbs = subverbs,
        .n_subverbs = sizeof subverbs / sizeof *subverbs,
};
