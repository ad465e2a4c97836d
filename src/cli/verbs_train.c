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

static drv_status run_train(arena *a, int argc, char **argv) {
    cli_args c;
    run_config cfg;
    int n;
    DRV_TRY(cli_parse(a, &verb_train, argc, argv, 1, 1, &c));
    const char **sets = cli_get_all(a, &c, "--set", &n);
    DRV_TRY(config_load(a, c.positional[0], sets, n, &cfg));
    return train(a, &cfg);
}

const verb verb_train = {"train", "pre-train a model, or go on where a run stopped",
        "CONFIG [--set KEY=VALUE]...",
        "Trains as the YAML file says; `drover config` prints all keys. The run directory gets config.yaml,\n"
        "log.txt, metrics.jsonl, tensorboard/ and checkpoints/step-N, each a Hugging Face folder. Started\n"
        "again, it resumes the newest valid checkpoint, bit for bit. SIGINT and SIGTERM finish the step,\n"
        "save and exit 0.",
        train_options, 1, run_train};

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
        cfg->valid = ARENA_NEW(a, data_source);
        *cfg->valid = (data_source){data, 1, "--data"};
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

static drv_status run_eval(arena *a, int argc, char **argv) {
    cli_args c;
    run_config cfg;
    programs p;
    backend *b;
    rows *r;
    const char *weights;
    double loss;
    int64_t tokens;
    DRV_TRY(cli_parse(a, &verb_eval, argc, argv, 1, 1, &c));
    DRV_TRY(open_eval(a, &c, &cfg, &weights));
    par_set_threads((int)cfg.threads);
    DRV_TRY(batch_open_rows(a, &cfg, false, &r));
    DRV_TRY(backend_open(a, cfg.backend, &b));
    DRV_TRY(programs_build(a, &cfg, &p));
    p.b = b;
    DRV_TRY(backend_compile(a, b, p.eval_graph, &p.eval_plan, &p.eval));
    // fp32 masters exist only in training: in bf16 the weights are rounded once here too.
    DRV_TRY(state_load_eval_weights(&p, weights));
    DRV_TRY(evaluate(a, &p, r, 0, &loss, &tokens));
    if (cli_has(&c, "--json"))
        printf("{\"loss\": %.9g, \"perplexity\": %.9g, \"tokens\": %lld}\n", loss, exp(loss),
                (long long)tokens);
    else
        printf("loss %.6f  perplexity %.4f  tokens %lld\n", loss, exp(loss), (long long)tokens);
    rows_close(r);
    backend_close(b);
    return DRV_OK;
}

const verb verb_eval = {"eval", "mean loss and perplexity over all tokens of a data set",
        "CONFIG|MODEL --data PREFIX [--json] [--set KEY=VALUE]...",
        "MODEL is a Hugging Face folder (a checkpoint is one); with a CONFIG, the newest checkpoint of its\n"
        "run_dir is evaluated.",
        eval_options, 3, run_eval};

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

static drv_status run_generate(arena *a, int argc, char **argv) {
    cli_args c;
    int64_t threads = 0;
    DRV_TRY(cli_parse(a, &verb_generate, argc, argv, 1, 1, &c));
    generate_opts o = {.folder = c.positional[0],
            .prompt = cli_get(&c, "--prompt", ""),
            .max_tokens = 200,
            .temperature = 0.8,
            .top_p = 0.95,
            .backend = "cpu",
            .emit = emit};
    DRV_TRY(cli_get_i64(&c, "--max-tokens", 1, 1 << 24, &o.max_tokens));
    DRV_TRY(cli_get_f64(&c, "--temperature", 0, 100, &o.temperature));
    DRV_TRY(cli_get_f64(&c, "--top-p", 0.001, 1, &o.top_p));
    DRV_TRY(cli_get_i64(&c, "--seed", 0, INT64_MAX, &o.seed));
    DRV_TRY(cli_get_i64(&c, "--threads", 0, 4096, &threads));
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

const verb verb_generate = {"generate", "write text with a model",
        "MODEL --prompt TEXT [--max-tokens N] [--temperature X]",
        "MODEL is a Hugging Face folder with a tokenizer: a checkpoint of a run, or any Llama.",
        generate_options, 6, run_generate};
