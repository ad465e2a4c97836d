// drover data: the verb, and its subverbs get and build; data_look.c has info, show and verify.
#include <string.h>

#include "base/log.h"
#include "base/parallel.h"
#include "base/version.h"
#include "cli/data_look.h"
#include "cli/fetch.h"
#include "data/set/build.h"

static void say_answers(const char *prefix, const build_counts *all) {
    const double tokens = (double)(all->tokens ? all->tokens : 1);
    log_info("%s.roles: %lld tokens of answers (%.1f%%), %lld of them of last answers (%.1f%%)%s",
            prefix, (long long)all->answers, 100 * (double)all->answers / tokens,
            (long long)all->last_answers, 100 * (double)all->last_answers / tokens,
            all->answers ? "" : ": nothing to train on");
    if (all->no_answer)
        log_warn("%lld conversation%s no answer: training on answers leaves %s out",
                (long long)all->no_answer, all->no_answer > 1 ? "s have" : " has",
                all->no_answer > 1 ? "them" : "it");
}

static drv_status data_build(arena *a, const cli_args *args) {
    int64_t workers = 0;
    build_stats stats;
    const char *column = cli_get(args, "--text-column", NULL);
    build_opts opts = {.reader = {.key = cli_get(args, "--json-key", column),
                               .inputs = {.tables = column ? TABLES_ALL : TABLES_NAMED,
                                       .others = "--ending"},
                               .conversations =
                                       "drover data build --sft makes a set of conversations",
                               .separator = cli_get(args, "--separator", NULL),
                               .strict = cli_has(args, "--strict")},
            .version = drover_number(),
            .append_eod = cli_has(args, "--append-eod") || cli_has(args, "--eod"),
            .eod = cli_get(args, "--eod", NULL),
            .cut_before = cli_get(args, "--cut-before", NULL),
            .cut_after = cli_get(args, "--cut-after", NULL),
            .sft = cli_has(args, "--sft") || cli_has(args, "--preference"),
            .preference = cli_has(args, "--preference"),
            .template = cli_get(args, "--template", NULL),
            .date = cli_get(args, "--date", NULL)};
    opts.inputs = cli_get_all(a, args, "--input", &opts.n_inputs);
    int n_endings; // the list has room for its end
    const char **endings = cli_get_all(a, args, "--ending", &n_endings);
    endings[n_endings] = NULL;
    opts.reader.inputs.endings = endings;
    const char *type = cli_get(args, "--token-type", NULL);
    if (type && !token_type_of(type, strlen(type), &opts.reader.ids.type))
        return drv_fail(DRV_E_USAGE,
                "data build: --token-type is \"%s\", expected uint8, uint16, uint32, uint64, or one of int8 to int64",
                type);
    if (!opts.n_inputs) return drv_fail(DRV_E_USAGE, "data build: --input is missing");
    DRV_TRY(cli_need(args, "--tokenizer", &opts.tokenizer));
    DRV_TRY(cli_need(args, "--out", &opts.prefix));
    if (str_ends(opts.prefix, "/"))
        return drv_fail(DRV_E_USAGE,
                "data build: --out is \"%s\", a folder, expected a prefix for the names of the files",
                opts.prefix);
    DRV_TRY(cli_get_i64(args, "--workers", 0, 4096, &workers));
    par_set_threads((int)workers);
    const drv_status status = dataset_build(a, &opts, &stats);
    if (status != DRV_OK) return cli_judge_input(status);
    const build_counts *all = &stats.all;
    log_info("%s.bin: %lld document%s, %lld tokens, %.2f bytes per token, %.1f MB/s; skipped %lld "
             "record%s, replaced %lld invalid byte sequence%s",
            opts.prefix, (long long)all->documents, str_plural(all->documents),
            (long long)all->tokens, (double)all->bytes / (double)(all->tokens ? all->tokens : 1),
            (double)stats.bytes_now / stats.seconds / 1e6, (long long)all->skipped,
            str_plural(all->skipped), (long long)all->replaced, str_plural(all->replaced));
    if (opts.preference)
        log_info("%s: %lld preference pair%s, %lld tokens of responses (%.1f%%)", opts.prefix,
                (long long)all->documents / 2, str_plural(all->documents / 2),
                (long long)all->last_answers,
                100 * (double)all->last_answers / (double)(all->tokens ? all->tokens : 1));
    else if (opts.sft)
        say_answers(opts.prefix, all);
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
        return drv_fail(DRV_E_USAGE, "\"%s\": expected 64 hexadecimal digits after #sha256=", url);
    *d = (download){.url = mark ? arena_strndup(a, url, (size_t)(mark - url)) : url,
            .path = path_join(a, out, arena_strndup(a, name, n)),
            .size = -1,
            .sha256 = mark ? mark + 8 : NULL};
    return DRV_OK;
}

static drv_status data_get(arena *a, const cli_args *args) {
    const char *what = args->positional[0], *out;
    fetch_opts o;
    DRV_TRY(cli_need(args, "--out", &out));
    DRV_TRY(fetch_options(a, args, out, &o));
    download one, *list = &one;
    int n = 1;
    if (str_starts(what, "hf:"))
        DRV_TRY(hub_list_data(a, what + 3, &o.hub, &list, &n));
    else if (str_starts(what, "http://") || str_starts(what, "https://")) {
        if (cli_has(args, "--revision"))
            return drv_fail(DRV_E_USAGE, "data get: --revision is for hf:ORG/NAME, not for a URL");
        DRV_TRY(plain_url(a, what, out, &one));
    } else
        return drv_fail(DRV_E_USAGE, "\"%s\": expected hf:ORG/NAME[:CONFIG] or a URL", what);
    return fetch_files(&o, list, n);
}

// --- the verb
static const cli_option get_options[] = {
        {"--out", "DIR", "where the files go"},
        CLI_FETCH,
};
static const cli_option build_options[] = {
        {"--input", "PATH...", "files, folders, globs, or - for standard input"},
        CLI_TOKENIZER,
        {"--out", "PREFIX", "writes PREFIX.bin and PREFIX.idx"},
        {"--json-key", "KEY", "key of the text in .jsonl, column of tables (default text)"},
        {"--text-column", "NAME",
                "column of the text in .csv, .tsv, .parquet, .arrow and .mds, those of folders too"},
        {"--ending", "EXT...", "files of folders that are texts too, as --ending py c h"},
        {"--separator", "TEXT",
                "cuts texts into documents, with \\n and \\t in it; default: a file is one"},
        {"--sft", NULL, "the records are conversations: see above"},
        {"--preference", NULL, "the records are preference pairs: see above"},
        {"--template", "NAME",
                "of conversations: chat (the tokenizer's own, the default), alpaca, or a file; none"},
        {"--date", "DAY", "that templates are told, as 2026-11-22 (default: today)"},
        {"--append-eod", NULL, "put the tokenizer's end-of-text token after each document"},
        {"--eod", "TOKEN", "put this token there: its text, or its id in digits"},
        {"--cut-before", "TOKEN", "a document of token ids begins with it: see above"},
        {"--cut-after", "TOKEN", "a document of token ids ends with it"},
        {"--token-type", "TYPE", "of ids in .npy without a header and in columns of bytes"},
        {"--workers", "N", "threads (default: all cores)"},
        {"--strict", NULL, "a broken record stops the run instead of being skipped"},
};
static const cli_option show_options[] = {
        {"--tokenizer", "PATH", "print text, not ids; a tokenizer as build takes it"},
        {"--document", "N", "which document (default 0)"},
};
static const cli_option info_options[] = {
        CLI_JSON,
        {"--sequence-length", "N",
                "of a set that --sft built: how many examples are too long for it"},
};
static const cli_option verify_options[] = {
        {"--tokenizer", "PATH",
                "the tokenizer that built the set, as build takes it; every token must be in its vocabulary"},
        {"--vocab-size", "N", "every token must be smaller"},
};

static const cli_rule build_rules[] = {
        {.option = "--sft",
                .excludes = "--json-key --text-column --ending --separator --append-eod --eod"},
        {.option = "--text-column", .excludes = "--json-key"},
        {.option = "--cut-before", .excludes = "--cut-after --sft --preference"},
        {.option = "--cut-after", .excludes = "--sft --preference"},
        {.option = "--preference",
                .excludes =
                        "--sft --json-key --text-column --ending --separator --append-eod --eod --strict"},
        {.option = "--template", .needs = "--sft --preference"},
        {.option = "--date", .needs = "--sft --preference"},
};
static const cli_rule verify_rules[] = {
        {.option = "--vocab-size", .excludes = "--tokenizer"},
};

static const verb subverbs[] = {
        {
                .name = "get",
                .summary = "download the files of a data set",
                .usage = "hf:ORG/NAME[:CONFIG]|URL --out DIR",
                .help = "Downloads the files of a data set from the Hugging Face hub, or of a URL[#sha256=HEX]: several\n"
                        "at a time, checked against their size and hash, resumed when cut off. HF_TOKEN is sent\n"
                        "to the hub alone; HF_ENDPOINT names another one.",
                CLI_OPTIONS(get_options),
                .min_positional = 1,
                .max_positional = 1,
                .run = data_get,
        },
        {
                .name = "build",
                .summary = "tokenise text into Megatron .bin/.idx",
                .usage =
                        "--input PATH... --tokenizer PATH --out PREFIX\n"
                        "--sft|--preference --input PATH... --tokenizer PATH --out PREFIX [--template NAME]",
                .help = "Reads .txt, .jsonl, .csv and .tsv (each also .gz, .zst), .parquet and .arrow, folders in name\n"
                        "order, also those of datasets.save_to_disk (text, or input_ids\n"
                        "unchanged); the format of standard input and of files with other\n"
                        "extensions is detected from their content. In folders such files are\n"
                        "read only if --ending names their extension, and .csv and .tsv only\n"
                        "with --text-column; they need a header row (RFC 4180). The documents\n"
                        "keep this order with any number of workers. If the build is killed,\n"
                        "the same command resumes it after the last finished input file.\n"
                        "\n"
                        "If they are named by a path or a pattern: .tar of WebDataset (KEY.txt, KEY.json, each also .gz)\n"
                        "and .mds of MosaicML, whose folders are read by their index.json; and token ids: .bin of llm.c\n"
                        "and modded-nanogpt, .npy of OLMo and NumPy, lists in .mds, .tar and .arrow. Ids\n"
                        "are checked against the tokenizer and stored unchanged. A document\n"
                        "begins in .bin with the tokenizer's BOS\n"
                        "(else its end-of-text token), ends in .npy with the end-of-text token, and is a row elsewhere;\n"
                        "--cut-before and --cut-after name another token, in rows too, which are then joined.\n"
                        "\n"
                        "--sft makes a set for fine-tuning of JSON (lines, or one array of objects), Parquet, Arrow, CSV\n"
                        "and TSV with messages (role, content), conversations (from, value), prompt and response or\n"
                        "completion, or instruction, input or context, and output or response; of Arrow also with\n"
                        "input_ids and labels. The tokens are those of transformers' apply_chat_template; PREFIX.roles\n"
                        "marks the answers, so that training can count them alone (data.loss). An\n"
                        "answer is marked by {% generation %} in the template, or else begins\n"
                        "after the generation prompt; the build fails if the template's text\n"
                        "of the first messages is not the beginning of the text of more\n"
                        "messages.\n"
                        "\n"
                        "--preference makes a set of pairs for training.objective: dpo (docs/preferences.md) of\n"
                        "records with chosen and rejected: two texts and a prompt, or two\n"
                        "lists of messages, whose prompt is a separate field or the messages\n"
                        "with which both begin. Each pair is two documents, the chosen one\n"
                        "first. With --template none the texts are used without a template:\n"
                        "the tokens are those of prompt and response and the end-of-text\n"
                        "token. A record without a pair, a prompt or a response ends the build.",
                CLI_OPTIONS(build_options),
                CLI_RULES(build_rules),
                .run = data_build,
        },
        {
                .name = "info",
                .summary = "type and counts of a data set",
                .usage = "PREFIX [--json] [--sequence-length N]",
                .help = "Opens any Megatron data set. Tokenizer and end-of-document token are known where\n"
                        "drover data build made it: it keeps them in PREFIX.idx.json. Of a set that\n"
                        "--sft built also how many tokens are answers and how long the examples are.",
                CLI_OPTIONS(info_options),
                .min_positional = 1,
                .max_positional = 1,
                .run = data_look_info,
        },
        {
                .name = "show",
                .summary = "print a document",
                .usage = "PREFIX [--document N] [--tokenizer PATH]",
                .help = "Prints the ids of a document, or its text when the tokenizer is given. Of a set that --sft\n"
                        "built the answers are green on a terminal, else between [[ and ]], the last between [[* and *]].",
                CLI_OPTIONS(show_options),
                .min_positional = 1,
                .max_positional = 1,
                .run = data_look_show,
        },
        {
                .name = "verify",
                .summary = "check every token of a data set",
                .usage = "PREFIX [--tokenizer PATH|--vocab-size N]",
                .help = "Checks all tokens against the vocabulary of the tokenizer that is given, or else of the one that\n"
                        "built the set, and the marks of answers that --sft makes. A failure names token, document and value.",
                CLI_OPTIONS(verify_options),
                CLI_RULES(verify_rules),
                .min_positional = 1,
                .max_positional = 1,
                .run = data_look_verify,
        },
};

const verb verb_data = {
        .name = "data",
        .summary = "get text, tokenise it into Megatron .bin/.idx, look at data sets",
        CLI_SUBVERBS(subverbs),
};
