// drover data: the verb, and its subverbs get and build; data_look.c has info, show and verify.
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/version.h"
#include "cli/fetch.h"
#include "data/get/download.h"
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
    const char *name = path_name(opts.prefix);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
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

static drv_status data_get(arena *a, const cli_args *args) {
    const char *what = args->positional[0], *out;
    hub_opts o;
    DRV_TRY(cli_need(args, "--out", &out));
    DRV_TRY(fetch_options(a, args, out, &o));
    download one, *list = &one;
    int n = 1;
    if (str_starts(what, "hf:"))
        DRV_TRY(hub_list_data(a, what + 3, &o, &list, &n));
    else if (str_starts(what, "http://") || str_starts(what, "https://")) {
        if (cli_has(args, "--revision"))
            return drv_fail(DRV_E_USAGE, "data get: --revision is for hf:ORG/NAME, not for a URL");
        DRV_TRY(download_of_url(a, what, out, &one));
    } else
        return drv_fail(DRV_E_USAGE, "\"%s\": expected hf:ORG/NAME[:CONFIG] or a URL", what);
    return fetch_files(&o, list, n);
}

// --- the verb
static const cli_option get_options[] = {
        {"--out", "DIR", "the folder for the files"},
        CLI_FETCH,
};
static const cli_option build_options[] = {
        {"--input", "PATH...", "files, folders, globs, or - for standard input"},
        CLI_TOKENIZER,
        {"--out", "PREFIX", "write PREFIX.bin and PREFIX.idx"},
        {"--json-key", "KEY", "key of the text in .jsonl, column of tables (default text)"},
        {"--text-column", "NAME",
                "column of the text in .csv, .tsv, .parquet, .arrow and .mds, also of those in folders"},
        {"--ending", "EXT...", "extensions of other text files in folders, e.g. --ending py c h"},
        {"--separator", "TEXT",
                "text between documents, may have \\n and \\t (default: a file is a document)"},
        {"--sft", NULL, "the records are conversations (see above)"},
        {"--preference", NULL, "the records are preference pairs (see above)"},
        {"--template", "NAME",
                "chat template: chat (the tokenizer's own, the default), alpaca, a file, or none"},
        {"--date", "DAY", "date for templates, such as 2026-11-22 (default: today)"},
        {"--append-eod", NULL,
                "put the tokenizer's end-of-text token after each text (even one that ends with it, as Megatron-LM does), and after ids that do not end with it"},
        {"--eod", "TOKEN", "put this token after each document: its text, or its id in digits"},
        {"--cut-before", "TOKEN", "a document of token ids begins with this token (see above)"},
        {"--cut-after", "TOKEN", "a document of token ids ends with this token"},
        {"--token-type", "TYPE", "type of ids in .npy without a header and in columns of bytes"},
        {"--workers", "N", "number of threads (default: all cores)"},
        {"--strict", NULL, "stop at a broken record instead of skipping it"},
};
static const cli_option show_options[] = {
        {"--tokenizer", "PATH", "print text instead of ids; a tokenizer as build takes it"},
        {"--document", "N", "number of the document (default 0)"},
};
static const cli_option info_options[] = {
        CLI_JSON,
        {"--sequence-length", "N",
                "count the examples of an --sft set that do not fit rows of N tokens"},
};
static const cli_option verify_options[] = {
        {"--tokenizer", "PATH",
                "the tokenizer that built the set, as build takes it; every token must be in its vocabulary"},
        {"--vocab-size", "N", "every token id must be smaller than N"},
};

static const cli_rule build_rules[] = {
        {.option = "--sft",
                .excludes =
                        "--json-key --text-column --ending --separator --append-eod --eod --token-type"},
        {.option = "--text-column", .excludes = "--json-key"},
        {.option = "--cut-before", .excludes = "--cut-after --append-eod --eod --sft --preference"},
        {.option = "--cut-after", .excludes = "--append-eod --eod --sft --preference"},
        {.option = "--preference",
                .excludes =
                        "--sft --json-key --text-column --ending --separator --append-eod --eod --token-type --strict"},
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
                .help = "Downloads the files of a data set from the Hugging Face hub, or the file at a URL[#sha256=HEX].\n"
                        "It fetches several files at a time, checks their size and hash, and resumes interrupted\n"
                        "downloads. The token comes from HF_TOKEN or `hf auth login`; it is sent only to the hub, over\n"
                        "https. HF_ENDPOINT names another hub.",
                CLI_OPTIONS(get_options),
                CLI_WORDS(1, 1),
                .run = data_get,
        },
        {
                .name = "build",
                .summary = "tokenise text into Megatron .bin/.idx",
                .usage =
                        "--input PATH... --tokenizer PATH --out PREFIX\n"
                        "--sft|--preference --input PATH... --tokenizer PATH --out PREFIX [--template NAME]",
                .help = "Reads .txt, .jsonl, .csv and .tsv (each also compressed as .gz or .zst), .parquet and .arrow.\n"
                        "Folders are read in the order of names, including those of datasets.save_to_disk (text, or\n"
                        "input_ids unchanged). The format of standard input and of files with other extensions is\n"
                        "detected from their content; in folders such extensions are read only if --ending names them,\n"
                        "and .csv and .tsv, which need a header row (RFC 4180), only with --text-column. With any number\n"
                        "of workers the documents keep this order. If the build is killed, the same command resumes it\n"
                        "after the last finished input file.\n"
                        "\n"
                        "Files named by a path or a pattern may also be shards of WebDataset (.tar with KEY.txt,\n"
                        "KEY.json, each also .gz) or of MosaicML (.mds, whose folders are read by their index.json), or\n"
                        "may contain token ids: .bin of llm.c and modded-nanogpt, .npy of OLMo and NumPy, lists in .mds,\n"
                        ".tar, .parquet and .arrow (input_ids). Ids are checked against the tokenizer and stored\n"
                        "unchanged. A document in .bin begins with the tokenizer's BOS (or its end-of-text token, if it\n"
                        "has no BOS), a document in .npy ends with the end-of-text token, and elsewhere each row is a\n"
                        "document. --cut-before and --cut-after name another token, also for rows, which are then joined\n"
                        "first. --append-eod is for texts and rows: .bin and .npy have the tokens between their documents\n"
                        "already.\n"
                        "\n"
                        "--sft makes a set for fine-tuning from JSON (lines, or one array of objects), Parquet, Arrow,\n"
                        "CSV and TSV with messages (role, content), conversations (from, value), prompt and response or\n"
                        "completion, or instruction, input or context, and output or response; from Arrow and Parquet\n"
                        "also with input_ids and labels. The tokens are those of transformers' apply_chat_template;\n"
                        "PREFIX.roles marks the answers, so that training can count them alone (data.loss). An answer is\n"
                        "marked by {% generation %} in the template, or else begins after the generation prompt; the\n"
                        "build fails if the text of the first messages is not the beginning of the text of all messages.\n"
                        "\n"
                        "--preference makes a set of pairs for training.objective: dpo (docs/preferences.md) from records\n"
                        "with chosen and rejected: two texts and a prompt, or two lists of messages, whose prompt is a\n"
                        "separate field or the messages that both begin with. Each pair is two documents, the chosen one\n"
                        "first. With --template none the texts are used without a template: the tokens are those of\n"
                        "prompt and response and the end-of-text token. A record without a pair, a prompt or a response\n"
                        "ends the build.",
                CLI_OPTIONS(build_options),
                CLI_RULES(build_rules),
                .run = data_build,
        },
        {
                .name = "info",
                .summary = "print the type and counts of a data set",
                .usage = "PREFIX [--json] [--sequence-length N]",
                .help = "Opens any Megatron data set. If drover data build made it, also prints its tokenizer and its\n"
                        "end-of-document token (from PREFIX.idx.json); for a set built with --sft, also the number of\n"
                        "tokens in answers and the lengths of the examples.",
                CLI_OPTIONS(info_options),
                CLI_WORDS(1, 1),
                .run = data_look,
        },
        {
                .name = "show",
                .summary = "print a document",
                .usage = "PREFIX [--document N] [--tokenizer PATH]",
                .help = "Prints the ids of a document, or with --tokenizer its text. In a set built with --sft the\n"
                        "answers are green on a terminal, otherwise between [[ and ]], the last between [[* and *]].",
                CLI_OPTIONS(show_options),
                CLI_WORDS(1, 1),
                .run = data_look,
        },
        {
                .name = "verify",
                .summary = "check every token of a data set",
                .usage = "PREFIX [--tokenizer PATH|--vocab-size N]",
                .help = "Checks all tokens against the vocabulary of the given tokenizer, or else of the one that built\n"
                        "the set, and the marks of answers that --sft makes. For a wrong token it prints the index, the\n"
                        "document and the value.",
                CLI_OPTIONS(verify_options),
                CLI_RULES(verify_rules),
                CLI_WORDS(1, 1),
                .run = data_look,
        },
};

const verb verb_data = {
        .name = "data",
        .summary = "get text, tokenise it into Megatron .bin/.idx, inspect data sets",
        CLI_SUBVERBS(subverbs),
};
