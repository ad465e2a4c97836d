// drover tokenizer: train, encode, decode.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/task.h"
#include "cli/cli.h"
#include "data/read/text_batch.h"

typedef struct next_batch {
    text_batch *b;
    reader *r;
} next_batch;

static drv_status read_next(void *ctx) {
    const next_batch *x = ctx;
    return text_batch_read(x->b, x->r);
}

static void count_text(void *ctx, const text_piece *p, int i, int thread) {
    (void)i;
    trainer_add(ctx, p, thread);
}

static drv_status set_threads(const cli_args *args) {
    int64_t threads = 0;
    DRV_TRY(cli_get_i64(args, "--threads", 0, 4096, &threads));
    par_set_threads((int)threads);
    return DRV_OK;
}

static drv_status tokenizer_train(arena *a, const cli_args *args) {
    tokenizer_train_opts o = {.vocab_size = 32000, .min_frequency = 2};
    const char *out, *llama3 = cli_get(args, "--pattern", "gpt2");
    reader_opts ro = {.key = cli_get(args, "--json-key", NULL),
            .separator = cli_get(args, "--separator", NULL),
            .strict = cli_has(args, "--strict")};
    int n;
    const char **inputs = cli_get_all(a, args, "--input", &n);
    DRV_TRY(set_threads(args));
    DRV_TRY(cli_need(args, "--out", &out));
    if (!n) return drv_fail(DRV_E_USAGE, "tokenizer train: --input is missing");
    DRV_TRY(cli_get_i64(args, "--vocab-size", 257, 1 << 24, &o.vocab_size));
    DRV_TRY(cli_get_i64(args, "--min-frequency", 1, INT64_MAX, &o.min_frequency));
    if (strcmp(llama3, "llama3") == 0)
        o.pattern = split_pattern_llama3;
    else if (strcmp(llama3, "gpt2") != 0)
        return drv_fail(DRV_E_USAGE,
                "tokenizer train: --pattern is \"%s\", expected gpt2 or llama3", llama3);
    static const char *const fallback[] = {"<|endoftext|>"};
    o.specials = cli_get_all(a, args, "--special", &o.n_specials);
    if (!o.n_specials) o.specials = fallback, o.n_specials = 1;
    DRV_TRY(cli_get_bytes(args, "--memory", TRAINER_LEAST_MEMORY, &o.memory));
    reader *r;
    DRV_TRY(reader_open(a, inputs, n, &ro, &r));
    trainer *t = trainer_new(&o);
    text_batch *batches[2] = {text_batch_new(), text_batch_new()};
    next_batch next = {.r = r};
    task reading = {0};
    const double begin = clock_s();
    int64_t bytes = 0, n_vocab = 0, total;
    drv_status s = text_batch_read(batches[0], r);
    for (int k = 0; s == DRV_OK; k = !k) {
        text_batch *b = batches[k];
        next.b = batches[!k];
        if (b->more) task_start(&reading, read_next, &next);
        s = text_batch_decode(b, r, count_text, t);
        if (s == DRV_OK) s = trainer_relieve(t);
        const drv_status read = task_wait(&reading);
        if (s == DRV_OK) s = read;
        for (int i = 0; s == DRV_OK && i < b->n; i++)
            bytes += (int64_t)b->pieces[i].n;
        const double done = (double)reader_bytes(r, &total), t_s = clock_s() - begin;
        progress("counting words: %s, %.1f MB/s, eta %s", str_bytes((double)bytes),
                (double)bytes / t_s / 1e6,
                done > 0 ? str_duration(t_s * ((double)total / done - 1)) : "?");
        if (!b->more) break;
    }
    progress_end();
    if (s == DRV_OK) s = trainer_finish(t, out, &n_vocab);
    text_batch_free(batches[0]);
    text_batch_free(batches[1]);
    trainer_free(t);
    reader_close(r);
    DRV_TRY(s);
    log_info("%s/tokenizer.json: %lld tokens from %s of text in %.1f s", out, (long long)n_vocab,
            str_bytes((double)bytes), clock_s() - begin);
    return DRV_OK;
}

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
    bool specials;
} encode_job;

static void encode_text(void *ctx, const text_piece *p, int i, int thread) {
    const encode_job *j = ctx;
    j->ids[i].n = 0;
    encoder_piece(j->encoders[thread], p, j->specials, &j->ids[i]);
}

// A line for each text: its ids; as a JSON array for each line of JSON.
static drv_status tokenizer_encode(arena *a, const cli_args *args) {
    const char *dir, *input = cli_get(args, "--input", "-");
    DRV_TRY(set_threads(args));
    DRV_TRY(cli_need(args, "--tokenizer", &dir));
    tokenizer *t;
    DRV_TRY(tokenizer_open(a, dir, &t));
    const reader_opts o = {.key = cli_get(args, "--json-key", NULL),
            .strict = true,
            .whole = !tokenizer_can_cut(t)};
    reader *r;
    DRV_TRY(reader_open(a, &input, 1, &o, &r));
    text_batch *b = text_batch_new();
    encode_job j = {.encoders = ARENA_ARRAY(a, encoder *, par_threads()),
            .ids = calloc(TEXT_BATCH, sizeof *j.ids),
            .specials = !cli_has(args, "--no-special")};
    DRV_ASSERT(j.ids, "out of memory");
    for (int i = 0; i < par_threads(); i++)
        j.encoders[i] = encoder_new(t);
    drv_status s = DRV_OK;
    bool any = false;
    while (s == DRV_OK && b->more) {
        s = text_batch_read(b, r);
        tokenizer_tidy(t);
        if (s == DRV_OK) s = text_batch_decode(b, r, encode_text, &j);
        for (int i = 0; s == DRV_OK && i < b->n; i++) {
            cli_print_ids(&j.ids[i], o.key != NULL, b->pieces[i].begins, b->pieces[i].ends);
            any = true;
        }
    }
    if (s == DRV_OK && !any && !o.key) { // an empty text has ids too
        j.ids[0].n = 0;
        encoder_run(j.encoders[0], "", 0, j.specials, &j.ids[0]);
        cli_print_ids(&j.ids[0], false, true, true);
    }
    for (int i = 0; i < TEXT_BATCH; i++)
        id_list_free(&j.ids[i]);
    for (int i = 0; i < par_threads(); i++)
        encoder_free(j.encoders[i]);
    free(j.ids);
    text_batch_free(b);
    reader_close(r);
    tokenizer_close(t);
    return s;
}

static drv_status tokenizer_decode_verb(arena *a, const cli_args *args) {
    const char *dir, *input = cli_get(args, "--input", "-");
    DRV_TRY(cli_need(args, "--tokenizer", &dir));
    tokenizer *t;
    DRV_TRY(tokenizer_open(a, dir, &t));
    FILE *f = strcmp(input, "-") == 0 ? stdin : fopen(input, "rb");
    if (!f) return drv_fail(DRV_E_IO, "could not open \"%s\"", input);
    id_list ids = {0};
    str out = {0};
    long long id;
    while (fscanf(f, " %*[[,] ") != EOF && fscanf(f, "%lld", &id) == 1) {
        id_list_add(&ids, id >= 0 && id < tokenizer_n_vocab(t) ? (int32_t)id : -1);
        if (fscanf(f, " %*[],]") == EOF) break;
    }
    tokenizer_decode(t, ids.p, ids.n, cli_has(args, "--no-special"), &out);
    fwrite(out.p ? out.p : "", 1, out.n, stdout);
    if (f != stdin) fclose(f);
    id_list_free(&ids);
    str_free(&out);
    tokenizer_close(t);
    return DRV_OK;
}

#define INPUT                                                                                      \
    { "--input", "PATH...", "files, folders, globs, or - for standard input" }
#define TOKENIZER                                                                                  \
    { "--tokenizer", "DIR", "folder of tokenizer.json" }
#define THREADS                                                                                    \
    { "--threads", "N", "how many (default: all cores)" }

static const cli_option train_options[] = {INPUT, {"--out", "DIR", "where tokenizer.json goes"},
        {"--vocab-size", "N", "tokens (default 32000)"},
        {"--min-frequency", "N", "rarest pair to merge (default 2)"},
        {"--pattern", "NAME", "how words are split, gpt2 (default) or llama3"},
        {"--special", "TEXT", "a special token (repeatable; default <|endoftext|>)"},
        {"--separator", "TEXT", "cuts .txt files into documents"},
        {"--json-key", "KEY", "of the text in .jsonl, column in .parquet (default text)"},
        {"--memory", "SIZE", "for counting and merging, e.g. 512M (default 4G)"},
        {"--strict", NULL, "a broken record stops the run instead of being skipped"}, THREADS};
static const cli_option encode_options[] = {TOKENIZER,
        {"--input", "PATH", "file, folder, glob, or - for standard input (default)"},
        {"--json-key", "KEY", "of the text in .jsonl, column in .parquet"},
        {"--no-special", NULL, "without BOS/EOS of the template"}, THREADS};
static const cli_option decode_options[] = {TOKENIZER,
        {"--input", "FILE", "ids, or - for standard input (default)"},
        {"--no-special", NULL, "leave special tokens out"}};

static const verb subverbs[] = {
        {
                .name = "train",
                .summary = "make a byte-level BPE tokenizer from text",
                .usage = "--input PATH... --vocab-size N --out DIR",
                .help = "Writes a Hugging Face tokenizer.json with the merges that its own trainer would find.",
                .options = train_options,
                .n_options = sizeof train_options / sizeof *train_options,
                .run = tokenizer_train,
        },
        {
                .name = "encode",
                .summary = "text to ids",
                .usage = "--tokenizer DIR [--input PATH]",
                .help = "Prints a line of ids for each text; with --json-key, a JSON array for each record.",
                .options = encode_options,
                .n_options = sizeof encode_options / sizeof *encode_options,
                .run = tokenizer_encode,
        },
        {
                .name = "decode",
                .summary = "ids to text",
                .usage = "--tokenizer DIR [--input FILE]",
                .help = "Reads ids as encode prints them, lines or JSON arrays.",
                .options = decode_options,
                .n_options = sizeof decode_options / sizeof *decode_options,
                .run = tokenizer_decode_verb,
        },
};

const verb verb_tokenizer = {
        .name = "tokenizer",
        .summary = "train a BPE tokenizer, encode and decode",
        .help = "Reads and writes Hugging Face tokenizer.json: byte-level BPE (GPT-2, Llama-3, SmolLM2) and\n"
                "the sentencepiece style (Llama-2). Ids and text are the same as there.",
        .subverbs = subverbs,
        .n_subverbs = sizeof subverbs / sizeof *subverbs,
};
