// train and eval.
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "cli/eval_choices.h"
#include "comm/comm.h"
#include "train/evaluate.h"
#include "train/lora_state.h"
#include "train/resolve.h"
#include "train/resume.h"
#include "train/state.h"
#include "train/train.h"

static const cli_option train_options[] = {CLI_SET,
        {"--fresh", NULL, "start at step 0; what is in the run directory moves to before-N"}};

static drv_status run_train(arena *a, const cli_args *args) {
    run_config cfg;
    int n;
    const char **sets = cli_get_all(a, args, "--set", &n);
    const drv_status status = config_load(a, args->positional[0], sets, n, &cfg);
    if (status != DRV_OK && comm_launched_rank() > 0)
        return drv_fail(status, "%s", ""); // rank 0 says it
    DRV_TRY(status);
    return train(a, &cfg, cli_has(args, "--fresh"));
}

const verb verb_train = {
        .name = "train",
        .summary = "pre-train a model, or resume a run where it stopped",
        .usage = "CONFIG [--fresh] [--set KEY=VALUE]...",
        .help = "Trains as the YAML file says; `drover config` prints all keys. The run directory gets\n"
                "config.yaml, log.txt, metrics.jsonl, tensorboard/ and checkpoints/step-N, each a Hugging\n"
                "Face folder. Started again, it resumes the newest valid checkpoint, bit for bit; what has\n"
                "changed since is said, and another model is refused.\n"
                "\n"
                "`mpirun -n N drover train CONFIG` (or srun --mpi=pmix) shares the rows of each step among\n"
                "N processes; parallel.lanes makes the result independent of N, to the bit.\n"
                "\n"
                "SIGINT, SIGTERM, SIGHUP and SIGUSR1 finish the micro-batch at hand, save the last finished\n"
                "step and exit 3: the same command resumes. A second SIGINT ends at once. SIGUSR2 saves and\n"
                "goes on. Exit status: 0 all steps are done, 1 failed, 2 wrong usage, 3 stopped on request.",
        .options = train_options,
        .n_options = sizeof train_options / sizeof *train_options,
        .min_positional = 1,
        .max_positional = 1,
        .run = run_train,
};

// --- eval
static const cli_option eval_options[] = {CLI_SET, CLI_JSON, CLI_ADAPTER,
        {"--stride", "N", "whole documents, longer ones by windows of N (default: as in training)"},
        {"--data", "PREFIX", "tokenised data set; all its tokens are predicted"},
        {"--choices", "FILE", "multiple choice in JSON lines: acc and acc_norm"},
        {"--no-bos", NULL, "with --choices: no special tokens around texts"}};

// Of a run the newest checkpoint, which is an adapter if the run trains LoRA.
static drv_status open_run_model(arena *a, run_config *cfg, model_ref *out) {
    const bool lora = lora_is_on(cfg);
    const char *checkpoint;
    DRV_TRY(ckpt_of_run(a, cfg->run_dir, &checkpoint));
    *out = lora ? (model_ref){cfg->from, checkpoint} : (model_ref){checkpoint, ""};
    return resume_check_model(checkpoint, &cfg->model, lora, false); // ids of tokens decide no loss
}

static drv_status open_eval(arena *a, const cli_args *args, run_config *cfg, model_ref *model) {
    const char *target = args->n_positional ? args->positional[0] : NULL,
               *adapter = cli_get(args, "--adapter", NULL), *data = cli_get(args, "--data", NULL);
    int n_sets;
    const char **sets = cli_get_all(a, args, "--set", &n_sets);
    const char **all = ARENA_ARRAY(a, const char *, n_sets + 3);
    int k = 0;
    const bool config = target && file_exists(target) && !file_is_dir(target);
    if (config && adapter)
        return drv_fail(DRV_E_USAGE, "eval: --adapter goes with a model, and \"%s\" is a config",
                target);
    if (!config) {
        DRV_TRY(model_resolve(a, target, adapter, model));
        all[k++] = arena_printf(a, "model.from=%s", model->folder);
    }
    for (int i = 0; i < n_sets; i++)
        all[k++] = sets[i];
    DRV_TRY(config_load(a, config ? target : NULL, all, k, cfg));
    if (data) {
        cfg->valid = ARENA_NEW(a, data_source);
        *cfg->valid = (data_source){data, 1, "--data"};
        cfg->n_valid = 1;
    }
    if (cfg->n_valid == 0 && cfg->split[1] <= 0)
        return drv_fail(DRV_E_USAGE, "eval: no data; give --data PREFIX");
    if (config) DRV_TRY(open_run_model(a, cfg, model));
    cfg->lora.adapter = model->adapter;
    return DRV_OK;
}

// The perplexity of a loss above 709 is beyond a double; JSON has no word for that but null.
static void print_result(bool json, double loss, int64_t tokens) {
    char perplexity[32] = "null";
    if (isfinite(exp(loss))) snprintf(perplexity, sizeof perplexity, "%.9g", exp(loss));
    if (json)
        printf("{\"loss\": %.9g, \"perplexity\": %s, \"tokens\": %lld}\n", loss, perplexity,
                (long long)tokens);
    else
        printf("loss %.6f  perplexity %.4f  tokens %lld\n", loss, exp(loss), (long long)tokens);
}

static drv_status run_eval(arena *a, const cli_args *args) {
    run_config cfg;
    programs built;
    backend *device;
    rows *r;
    model_ref model;
    double loss;
    int64_t tokens, stride = 0;
    if (cli_has(args, "--choices")) return eval_choices(a, args);
    if (cli_has(args, "--no-bos"))
        return drv_fail(DRV_E_USAGE, "eval: --no-bos goes with --choices");
    DRV_TRY(open_eval(a, args, &cfg, &model));
    par_set_threads((int)cfg.threads);
    DRV_TRY(cli_get_i64(args, "--stride", 1, cfg.sequence_length, &stride));
    DRV_TRY_CTX(batch_open_rows(a, &cfg, false, stride, &r), "%s",
            cfg.n_valid ? cfg.valid[0].where : config_where(&cfg, "data.split"));
    DRV_TRY(backend_open(a, cfg.backend, &device));
    cfg.pipeline_parallel = cfg.virtual_stages = 1; // one process has the whole model
    DRV_TRY(programs_build(a, &cfg, &built));
    built.b = device;
    DRV_TRY(backend_compile(a, device, built.eval_graph, NULL, &built.eval));
    // fp32 masters exist only in training: in bf16 the weights are rounded once here too.
    DRV_TRY(*model.adapter ? lora_load_eval(&built, model.folder, model.adapter)
                           : state_load_eval_weights(&built, model.folder));
    DRV_TRY(evaluate(&built, r, 0, NULL, &loss, &tokens));
    print_result(cli_has(args, "--json"), loss, tokens);
    rows_close(r);
    backend_close(device);
    return DRV_OK;
}

const verb verb_eval = {
        .name = "eval",
        .summary = "mean loss and perplexity of a data set, or accuracy on multiple choice",
        .usage = "CONFIG|MODEL [--adapter DIR] --data PREFIX|--choices FILE [OPTION]...",
        .help = "MODEL is a Hugging Face folder (a checkpoint is one) or a run directory; of a run, also\n"
                "when its CONFIG is given, the newest valid checkpoint is evaluated. An adapter (a folder that\n"
                "PEFT saved, a checkpoint of a LoRA run) may stand in the place of MODEL, and is then used with\n"
                "the base that it names.\n"
                "\n"
                "--choices scores each choice by its log-likelihood after the context, as\n"
                "lm-evaluation-harness does: acc takes the largest sum, acc_norm the largest per character of\n"
                "the choice; stderr is that of the mean. FILE has one record per line: HellaSwag's or ARC's as\n"
                "they are on Hugging Face, or\n"
                "    {\"context\": \"The sky is\", \"choices\": [\"blue\", \"a fish\"], \"gold\": 0}\n"
                "A space stands between the two. --no-bos is its add_bos_token=False, once the default there.",
        .options = eval_options,
        .n_options = sizeof eval_options / sizeof *eval_options,
        .max_positional = 1,
        .run = run_eval,
};
