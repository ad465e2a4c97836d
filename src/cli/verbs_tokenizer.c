// drover tokenizer: encode and decode; train has a file of its own.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "data/read/text_batch.h"
#include "tok/model_file.h"

void cli_print_ids(const id_list *ids, bool json, bool begins, bool ends) {
    if (json && begins) putchar('[');
    for (int64_t i = 0; i < ids->n; i++) {
        if (i > 0 || !begins) fputs(json ? ", " : " ", stdout);
        printf("%d", ids->p[i]);
    }
    if (ends) puts(json ? "]" : "");
}

typedef struct encode_job {
    encoder **encoders; // by thread
    id_list *ids;       // by piece
    bool specials, json;
} encode_job;

static const char *encode_text(void *ctx, const text_piece *p, int i, int thread) {
    const encode_job *j = ctx;
    j->ids[i].n = 0;
    encoder_piece(j->encoders[thread], p, j->specials, &j->ids[i]);
    return NULL;
}

// Prints a line for each text, batch by batch, until a record cannot be read.
static drv_status encode_all(const tokenizer *t, reader *r, text_batch *b, encode_job *j) {
    drv_status status = DRV_OK;
    bool any = false;
    while (status == DRV_OK && b->more) {
        status = text_batch_read(b, r);
        tokenizer_tidy(t);
        if (status == DRV_OK) status = text_batch_decode(b, r, encode_text, j);
        for (int i = 0; status == DRV_OK && i < b->n; i++) {
            cli_print_ids(&j->ids[i], j->json, b->pieces[i].begins, b->pieces[i].ends);
            any = true;
        }
    }
    if (status != DRV_OK || any || j->json) return status;
    j->ids[0].n = 0; // an empty text has ids too
    encoder_run(j->encoders[0], "", 0, j->specials, &j->ids[0]);
    cli_print_ids(&j->ids[0], false, true, true);
    return DRV_OK;
}

// Prints the ids of each text on a line, and those of JSON records as JSON arrays.
static drv_status tokenizer_encode(arena *a, const cli_args *args) {
    const char *dir, *standard_input[] = {"-"};
    int n_inputs;
    const char **inputs = cli_get_all(a, args, "--input", &n_inputs);
    if (!n_inputs) inputs = standard_input, n_inputs = 1;
    DRV_TRY(cli_set_threads(args));
    DRV_TRY(cli_need(args, "--tokenizer", &dir));
    tokenizer *tok;
    DRV_TRY(tokenizer_open(a, dir, &tok));
    const reader_opts opts = {.key = cli_get(args, "--json-key", NULL),
            .strict = true,
            .as_is = true,
            .whole = !tokenizer_can_cut(tok)};
    reader *r;
    DRV_TRY(reader_open(a, inputs, n_inputs, &opts, &r));
    encode_job j = {.encoders = ARENA_ARRAY(a, encoder *, par_threads()),
            .ids = ARENA_ARRAY(a, id_list, TEXT_BATCH),
            .specials = !cli_has(args, "--no-special"),
            .json = opts.key != NULL};
    for (int i = 0; i < par_threads(); i++)
        j.encoders[i] = encoder_new(tok);
    text_batch *b = text_batch_new();
    const drv_status status = encode_all(tok, r, b, &j);
    for (int i = 0; i < TEXT_BATCH; i++)
        id_list_free(&j.ids[i]);
    for (int i = 0; i < par_threads(); i++)
        encoder_free(j.encoders[i]);
    text_batch_free(b);
    reader_close(r);
    tokenizer_close(tok);
    return status;
}

// Reads the ids of a line, numbers between spaces, commas and brackets.
static drv_status read_ids(const tokenizer *t, const char *where, const char *line, id_list *out) {
    static const char between[] = " \t\r\n,[]";
    out->n = 0;
    for (const char *p = line + strspn(line, between); *p; p += strspn(p, between)) {
        const int n = (int)strcspn(p, between);
        char *end;
        errno = 0;
        const long long id = strtoll(p, &end, 10);
        if (end != p + n)
            return drv_fail(DRV_E_DATA, "%s: \"%.*s\" is not a token id", where, n < 40 ? n : 40,
                    p);
        if (errno || id < 0 || id >= tokenizer_n_vocab(t))
            return drv_fail(DRV_E_DATA,
                    "%s: token id %.*s is not in the vocabulary, expected 0 to %d", where,
                    n < 40 ? n : 40, p, tokenizer_n_vocab(t) - 1);
        id_list_add(out, (int32_t)id);
        p = end;
    }
    return DRV_OK;
}

// Prints a record that data build can read.
static void print_json_text(const char *key, const str *text) {
    json_t *object = json_pack("{s: s%}", key, text->n ? text->p : "", text->n);
    DRV_ASSERT(object, "a decoded text is not UTF-8");
    cli_puts_json(object, json_dumps(object, JSON_ENSURE_ASCII));
}

// Prints the text of ids, of all lines joined; with --json-key a record for each line.
static drv_status decode_all(const tokenizer *tok, const cli_args *args, FILE *file,
        const char *input) {
    const char *key = cli_get(args, "--json-key", NULL);
    id_list ids = {0}, line_ids = {0};
    str text = {0};
    char *line = NULL, where[512];
    size_t cap = 0;
    drv_status status = DRV_OK;
    for (int64_t number = 1; status == DRV_OK && getline(&line, &cap, file) >= 0; number++) {
        snprintf(where, sizeof where, "%s:%lld", input, (long long)number);
        status = read_ids(tok, where, line, &line_ids);
        if (status != DRV_OK) break;
        if (!key) {
            id_list_append(&ids, line_ids.p, line_ids.n);
            continue;
        }
        str_clear(&text);
        tokenizer_decode(tok, line_ids.p, line_ids.n, cli_has(args, "--no-special"), &text);
        print_json_text(key, &text);
    }
    if (status == DRV_OK && ferror(file))
        status = drv_fail(DRV_E_IO, "could not read \"%s\": %s", input, strerror(errno));
    if (status == DRV_OK && !key) {
        tokenizer_decode(tok, ids.p, ids.n, cli_has(args, "--no-special"), &text);
        fwrite(text.n ? text.p : "", 1, text.n, stdout);
    }
    free(line);
    id_list_free(&ids);
    id_list_free(&line_ids);
    str_free(&text);
    return status;
}

static drv_status tokenizer_decode_verb(arena *a, const cli_args *args) {
    const char *dir, *input = cli_get(args, "--input", "-");
    DRV_TRY(cli_need(args, "--tokenizer", &dir));
    tokenizer *t;
    DRV_TRY(tokenizer_open(a, dir, &t));
    const bool is_stdin = strcmp(input, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(input, "rb");
    if (is_stdin) input = "standard input";
    drv_status status = f ? decode_all(t, args, f, input)
                          : drv_fail(DRV_E_IO, "could not open \"%s\": %s", input, strerror(errno));
    if (f && f != stdin) fclose(f);
    tokenizer_close(t);
    return status;
}

// --- convert
static drv_status tokenizer_convert(arena *a, const cli_args *args) {
    const char *path, *out;
    DRV_TRY(cli_need(args, "--tokenizer", &path));
    DRV_TRY(cli_need(args, "--out", &out));
    const char *old = path_join(a, out, "tokenizer.json");
    if (file_exists(old))
        return drv_fail(DRV_E_USAGE,
                "tokenizer convert: \"%s\" is there already, expected a new folder", old);
    DRV_TRY(model_file_convert(path, out));
    log_info("%s/tokenizer.json and tokenizer_config.json give the same ids", out);
    return DRV_OK;
}

#define INPUT                                                                                      \
    { "--input", "PATH...", "files, folders, globs, or - for standard input" }
#define THREADS                                                                                    \
    { "--threads", "N", "number of threads (default: all cores)" }

static const cli_option train_options[] = {
        INPUT,
        {"--out", "DIR", "the folder for tokenizer.json"},
        {"--vocab-size", "N", "number of tokens (default 32000)"},
        {"--min-frequency", "N", "merge only pairs that occur at least N times (default 2)"},
        {"--pattern", "NAME", "how text is split into words: gpt2 (default) or llama3"},
        {"--special", "TEXT", "a special token (repeatable); its name may imply its role"},
        {"--bos", "TEXT", "token that begins a text; encoding puts it first"},
        {"--eos", "TEXT", "token that ends a text (without --special: <|endoftext|>)"},
        {"--chat", "FORM", "prepare for conversations in this form (chatml or llama3)"},
        {"--pad", "TEXT", "token that pads rows"},
        {"--unk", "TEXT", "token for unknown text; never needed, since all bytes are tokens"},
        {"--ending", "EXT...", "extensions of other text files in folders, e.g. --ending py c h"},
        {"--separator", "TEXT", "text between the documents of a .txt file"},
        {"--json-key", "KEY", "key of the text in .jsonl, column in .parquet (default text)"},
        {"--memory", "SIZE", "memory for counting and merging, e.g. 512M (default 4G)"},
        {"--strict", NULL, "stop at a broken record instead of skipping it"},
        THREADS,
};
static const cli_option encode_options[] = {
        CLI_TOKENIZER,
        {"--input", "PATH...", "files, folders, globs, or - for standard input (default)"},
        {"--json-key", "KEY", "key of the text in .jsonl, column in .parquet"},
        {"--no-special", NULL, "leave out the BOS and EOS that the template adds"},
        THREADS,
};
static const cli_option decode_options[] = {
        CLI_TOKENIZER,
        {"--input", "FILE", "ids, or - for standard input (default)"},
        {"--json-key", "KEY",
                "print a JSON object for each line of ids, with its text under this key"},
        {"--no-special", NULL, "leave special tokens out"},
};

static const cli_option convert_options[] = {
        CLI_TOKENIZER,
        {"--out", "DIR", "the folder for tokenizer.json and tokenizer_config.json"},
};

static const verb subverbs[] = {
        {
                .name = "train",
                .summary = "train a byte-level BPE tokenizer on text",
                .usage = "--input PATH... --vocab-size N --out DIR",
                .help = "Writes a Hugging Face tokenizer.json with the merges that Hugging Face's trainer would find. It\n"
                        "prints the roles of the special tokens and writes them to tokenizer_config.json. The roles\n"
                        "follow from --bos, --eos, --pad and --unk, or from the tokens' names (<s>, </s>, <pad>, <unk>,\n"
                        "<|endoftext|>, <|begin_of_text|>, <|end_of_text|> ...).\n"
                        "\n"
                        "--chat adds the special tokens that mark turns, writes the chat template of that form\n"
                        "(chat_template.jinja), and names the end of a turn in generation_config.json: data build --sft,\n"
                        "train and chat need nothing else.",
                CLI_OPTIONS(train_options),
                .run = tokenizer_train,
        },
        {
                .name = "encode",
                .summary = "convert text to ids",
                .usage = "--tokenizer PATH [--input PATH...]",
                .help = "Prints a line of ids for each text; with --json-key, a JSON array for each record.",
                CLI_OPTIONS(encode_options),
                .run = tokenizer_encode,
        },
        {
                .name = "decode",
                .summary = "convert ids to text",
                .usage = "--tokenizer PATH [--input FILE]",
                .help = "Reads ids as encode prints them, lines or JSON arrays, and prints their text; with --json-key\n"
                        "KEY, a record {\"KEY\": \"text\"} for each line, as data build reads them.",
                CLI_OPTIONS(decode_options),
                .run = tokenizer_decode_verb,
        },
        {
                .name = "convert",
                .summary = "convert tokenizer.model to tokenizer.json",
                .usage = "--tokenizer PATH --out DIR",
                .help = "Writes a model of sentencepiece or ranks of tiktoken as tokenizer.json and\n"
                        "tokenizer_config.json, if these can express a tokenizer with the same ids; otherwise it prints\n"
                        "the reason and writes nothing. All verbs also accept the original file.",
                CLI_OPTIONS(convert_options),
                .run = tokenizer_convert,
        },
};

const verb verb_tokenizer = {
        .name = "tokenizer",
        .summary = "train a BPE tokenizer, encode, decode and convert",
        .help = "Reads and writes Hugging Face tokenizer.json: byte-level BPE (GPT-2, Llama-3, SmolLM2) and the\n"
                "sentencepiece style (Llama-2). It also reads unigram models in this format (T5, mBART),\n"
                "tokenizer.model of sentencepiece (BPE, unigram) and ranks of tiktoken. Ids and text are the same\n"
                "as with those programs.",
        CLI_SUBVERBS(subverbs),
};
