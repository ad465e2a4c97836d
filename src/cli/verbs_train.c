// train and eval.
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "train/batch.h"
#include "train/resolve.h"
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
    const bool config = file_exists(target) && !file_is_dir(target);
    if (!config) {
        DRV_TRY(ckpt_resolve(a, target, weights));
        all[k++] = arena_printf(a, "model.from=%s", *weights);
    }
    for (int i = 0; i < n; i++)
        all[k++] = sets[i];
    DRV_TRY(config_load(a, config ? target : NULL, all, k, cfg));
    if (data) {
        cfg->valid = ARENA_NEW(a, data_source);
        *cfg->valid = (data_source){data, 1, "--data"};
        cfg->n_valid = 1;
    }
    if (cfg->n_valid == 0 && cfg->split[1] <= 0)
        return drv_fail(DRV_E_USAGE, "eval: no data; give --data PREFIX");
    if (config) DRV_TRY(ckpt_of_run(a, cfg->run_dir, weights));
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
        .help = "MODEL is a Hugging Face folder (a checkpoint is one) or a run directory; of a run, also\n"
                "when its CONFIG is given, the newest valid checkpoint is evaluated.",
        .options = eval_options,
        .n_options = sizeof eval_options / sizeof *eval_options,
        .min_positional = 1,
        .max_positional = 1,
        .run = run_eval,
};
