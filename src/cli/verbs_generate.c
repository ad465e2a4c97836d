// generate: text from a model.
#include <stdio.h>

#include "base/log.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "train/generate.h"

static const cli_option generate_options[] = {{"--prompt", "TEXT", "what the text begins with"},
        {"--max-tokens", "N", "at most so many new tokens (default 200)"},
        {"--temperature", "X", "0: always the likeliest token (default 0.8)"},
        {"--top-p", "X", "draw from the likeliest tokens of this total probability (default 0.95)"},
        {"--seed", "N", "of the draws (default 0)"}, {"--threads", "N", "0: all cores"}};

static void emit(void *ctx, const char *text, size_t n) {
    (void)ctx;
    fwrite(text, 1, n, stdout);
    fflush(stdout);
}

static drv_status run_generate(arena *a, const cli_args *args) {
    int64_t threads = 0;
    generate_opts o = {.folder = args->positional[0],
            .prompt = cli_get(args, "--prompt", ""),
            .max_tokens = 200,
            .temperature = 0.8,
            .top_p = 0.95,
            .backend = "cpu",
            .emit = emit};
    DRV_TRY(cli_get_i64(args, "--max-tokens", 1, 1 << 24, &o.max_tokens));
    DRV_TRY(cli_get_f64(args, "--temperature", 0, 100, &o.temperature));
    DRV_TRY(cli_get_f64(args, "--top-p", 0.001, 1, &o.top_p));
    DRV_TRY(cli_get_i64(args, "--seed", 0, INT64_MAX, &o.seed));
    DRV_TRY(cli_get_i64(args, "--threads", 0, 4096, &threads));
    par_set_threads((int)threads);
    generate_stats st;
    fputs(o.prompt, stdout);
    fflush(stdout);
    drv_status s = generate(a, &o, &st);
    putchar('\n');
    fflush(stdout);
    DRV_TRY(s);
    log_info("%lld prompt tokens in %.2f s, %lld new tokens in %.2f s: %.1f tokens/s",
            (long long)st.prompt_tokens, st.prefill_s, (long long)st.new_tokens, st.decode_s,
            (double)st.new_tokens / st.decode_s);
    return DRV_OK;
}

const verb verb_generate = {
        .name = "generate",
        .summary = "write text with a model",
        .usage = "MODEL --prompt TEXT [--max-tokens N] [--temperature X]",
        .help = "MODEL is a Hugging Face folder with a tokenizer: a checkpoint of a run, or any Llama.",
        .options = generate_options,
        .n_options = sizeof generate_options / sizeof *generate_options,
        .min_positional = 1,
        .max_positional = 1,
        .run = run_generate,
};
