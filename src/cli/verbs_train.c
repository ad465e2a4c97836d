// train, eval, generate.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "train/batch.h"
#include "train/generate.h"
#include "train/state.h"
#include "train/train.h"

static const cli_option train_options[] = {CLI_SET};

static drv_status run_train(arena *a, const cli_args *args) {
    run_config cfg;
    int n;
    const char **sets = cli_get_all(a, args, "--set", &n);
    DRV_TRY(config_load(a, args->positional[0], sets, n, &cfg));
    return train(a, &cfg);
}

const verb verb_train = {
        .name = "train",
        .summary = "pre-train a model, or resume a run where it stopped",
        .usage = "CONFIG [--set KEY=VALUE]...",
        .help = "Trains as the YAML file says; `drover config` prints all keys. The run directory gets\n"
                "config.yaml, log.txt, metrics.jsonl, tensorboard/ and checkpoints/step-N, each a Hugging\n"
                "Face folder. Started again, it resumes the newest valid checkpoint, bit for bit. SIGINT\n"
                "and SIGTERM finish the step, save and exit 0.",
        .options = train_options,
        .n_options = sizeof train_options / sizeof *train_options,
        .min_positional = 1,
        .max_positional = 1,
        .run = run_train,
};

// --- eval
static const cli_option eval_options[] = {CLI_SET, CLI_JSON,
        {"--data", "PREFIX", "tokenised data set; all its tokens are predicted"}};

static drv_status open_eval(arena *a, const cli_args *c, run_config *cfg, const char **weights) {
    const char *target = c->positional[0], *data = cli_get(c, "--data", NULL);
    int n;
    const char **sets = cli_get_all(a, c, "--set", &n);
    const char **all = ARENA_ARRAY(a, const char *, n + 3);
    int k = 0;
    const bool folder = file_is_dir(target);
    if (folder) all[k++] = arena_printf(a, "model.from=%s", target);
    for (int i = 0; i < n; i++)
        all[k++] = sets[i];
    DRV_TRY(config_load(a, folder ? NULL : target, all, k, cfg));
    if (data) {
        cfg->valid[0] = (data_source){data, 1};
        cfg->n_valid = 1;
    }
    if (cfg->n_valid == 0 && cfg->split[1] <= 0)
        return drv_fail(DRV_E_USAGE, "eval: no data; give --data PREFIX");
    *weights = target;
    if (!folder) {
        DRV_TRY(ckpt_newest(a, path_join(a, cfg->run_dir, "checkpoints"), weights));
        if (!*weights) return drv_fail(DRV_E_DATA, "\"%s\" has no checkpoint", cfg->run_dir);
    }
    return DRV_OK;
}

static drv_status run_eval(arena *a, const cli_args *args) {
    run_config cfg;
    programs p;
    backend *b;
    rows *r;
    const char *weights;
    double loss;
    int64_t tokens;
    DRV_TRY(open_eval(a, args, &cfg, &weights));
    par_set_threads((int)cfg.threads);
    DRV_TRY(batch_open_rows(a, &cfg, false, &r));
    DRV_TRY(backend_open(a, cfg.backend, &b));
    DRV_TRY(programs_build(a, &cfg, &p));
    p.b = b;
    DRV_TRY(backend_compile(a, b, p.eval_graph, &p.eval_plan, &p.eval));
    // fp32 masters exist only in training: in bf16 the weights are rounded once here too.
    DRV_TRY(state_load_eval_weights(&p, weights));
    DRV_TRY(evaluate(a, &p, r, 0, &loss, &tokens));
    if (cli_has(args, "--json"))
        printf("{\"loss\": %.9g, \"perplexity\": %.9g, \"tokens\": %lld}\n", loss, exp(loss),
                (long long)tokens);
    else
        printf("loss %.6f  perplexity %.4f  tokens %lld\n", loss, exp(loss), (long long)tokens);
    rows_close(r);
    backend_close(b);
    return DRV_OK;
}

const verb verb_eval = {
        .name = "eval",
        .summary = "mean loss and perplexity over all tokens of a data set",
        .usage = "CONFIG|MODEL --data PREFIX [--json] [--set KEY=VALUE]...",
        .help = "MODEL is a Hugging Face folder (a checkpoint is one); with a CONFIG, the newest\n"
                "checkpoint of its run_dir is evaluated.",
        .options = eval_options,
        .n_options = sizeof eval_options / sizeof *eval_options,
        .min_positional = 1,
        .max_positional = 1,
        .run = run_eval,
};

// --- generate
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
