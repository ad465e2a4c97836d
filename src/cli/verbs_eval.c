// drover eval: measures the loss of data sets and texts, the accuracy on multiple choice, or writes
// logits.
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "cli/generate_args.h"
#include "data/set/dataset.h"
#include "infer/choices.h"
#include "infer/logits_file.h"
#include "infer/model_view.h"
#include "infer/prefix.h"
#include "infer/score.h"
#include "train/resume.h"
#include "setup/device.h"
#include "weights/lora_state.h"
#include "infer/resolve.h"
#include "setup/run_layout.h"

static const cli_option eval_options[] = {
        CLI_SET,
        CLI_JSON,
        CLI_ADAPTER,
        {"--data", "PREFIX", "a tokenised data set (default: data.valid or data.split of CONFIG)"},
        {"--text", "PATH...", "texts: .txt, .jsonl, .parquet, folders of them"},
        {"--choices", "FILE", "multiple-choice records in JSON lines; prints acc and acc_norm"},
        {"--context", "N",
                "tokens of a window (default: the model's context, or CONFIG's sequence length)"},
        {"--stride", "N",
                "new tokens that each window of a longer document predicts (default: all)"},
        {"--logits", "FILE", "write the logits of the first document as safetensors"},
        {"--precision", "NAME",
                "type of the weights: bf16, fp32, or blocks, those of a GGUF file (default: the model's)"},
        {"--json-key", "KEY", "key of the text in JSON lines, or Parquet column (default: text)"},
        {"--separator", "TEXT",
                "text between the documents of a .txt file (default: a file is one document)"},
        {"--no-bos", NULL, "add no special tokens; --text keeps the one before a text"},
};
static const cli_rule eval_rules[] = {
        {.option = "--choices", .excludes = "--data --text --stride --context --logits --set"},
        {.option = "--text", .excludes = "--data --set"},
        {.option = "--json-key", .needs = "--text"},
        {.option = "--separator", .needs = "--text"},
        {.option = "--logits", .needs = "--text"},
        {.option = "--no-bos", .needs = "--text --choices"},
};

// --- the model
// Returns the config that is named, or that of a run directory. NULL: a model is named.
static const char *any_config_of(arena *a, const cli_args *args) {
    const char *target = args->n_positional ? args->positional[0] : NULL;
    if (!target || model_view_is_for(a, target)) return NULL;
    if (file_exists(target) && !file_is_dir(target)) return target;
    const char *beside = path_join(a, target, "config.yaml");
    const bool is_run = file_is_dir(path_join(a, target, "checkpoints"));
    return is_run && file_exists(beside) && !file_odd_kind(beside) ? beside : NULL;
}

// Returns whether `data` has preference pairs and the run compares such.
static bool compares_pairs(arena *a, const char *config, const char *data) {
    run_config cfg;
    dataset *set;
    if (config_load(a, config, NULL, 0, &cfg) != DRV_OK || cfg.objective != OBJECTIVE_DPO ||
            dataset_open(a, data, &set) != DRV_OK)
        return false;
    const bool pairs = set->about.pairs > 0;
    dataset_close(set);
    return pairs;
}

// Returns the same, but not the config of a run directory if an adapter or other data are given,
// unless the run compares pairs and they are such.
static const char *config_of(arena *a, const cli_args *args) {
    const char *target = args->n_positional ? args->positional[0] : NULL,
               *file = any_config_of(a, args), *data = cli_get(args, "--data", NULL);
    if (!file || file == target) return file;
    return !cli_has(args, "--adapter") && (!data || compares_pairs(a, file, data)) ? file : NULL;
}

// Returns how the run that is named holds its base (model.base_dtype), for equal figures.
static base_dtype base_of_run(arena *a, const cli_args *args) {
    run_config cfg;
    const char *file = cli_has(args, "--adapter") ? NULL : any_config_of(a, args);
    return file && config_load(a, file, NULL, 0, &cfg) == DRV_OK ? cfg.base_dtype : BASE_AUTO;
}

// Returns the config of a run, on whose device the evaluation runs. NULL: not known.
static run_config *run_config_of(arena *a, const cli_args *args) {
    run_config *cfg = ARENA_NEW(a, run_config);
    const char *file = config_of(a, args);
    return file && config_load(a, file, NULL, 0, cfg) == DRV_OK ? cfg : NULL;
}

static drv_status set_precision(arena *a, const cli_args *args, scorer_opts *out) {
    generate_precision asked = GENERATE_AUTO;
    DRV_TRY(generation_precision(args, &asked));
    out->quantised = asked == GENERATE_BLOCKS;
    out->bf16 = asked == GENERATE_BF16 ||
                (asked == GENERATE_AUTO && generator_says_bf16(a, out->folder));
    return DRV_OK;
}

static drv_status open_model(arena *a, const cli_args *args, scorer_opts *out) {
    model_ref ref;
    DRV_TRY(model_resolve(a, args->n_positional ? args->positional[0] : NULL,
            cli_get(args, "--adapter", NULL), &ref));
    *out = (scorer_opts){.folder = ref.folder,
            .adapter = ref.adapter,
            .backend = "",
            .base = base_of_run(a, args)};
    run_config *cfg = run_config_of(a, args);
    if (cfg) out->backend = cfg->backend;
    if (cfg) out->device = device_opts(cfg);
    return set_precision(a, args, out);
}

static drv_status read_windows(const cli_args *args, int64_t most, int64_t usual, score_opts *out) {
    out->context = usual;
    DRV_TRY(cli_get_i64(args, "--context", 1, most, &out->context));
    out->stride = out->context;
    return cli_get_i64(args, "--stride", 1, out->context, &out->stride);
}

// --- data sets
// Opens the newest checkpoint of a run, which is an adapter if the run trains LoRA.
static drv_status open_run_model(arena *a, run_config *cfg, model_ref *out) {
    const bool lora = lora_is_on(cfg);
    const char *checkpoint;
    DRV_TRY(ckpt_of_run(a, cfg->run_dir, &checkpoint));
    *out = (model_ref){checkpoint, ""};
    if (lora) {
        out->adapter = checkpoint;
        DRV_TRY(model_base_folder(a, cfg->from, &out->folder));
    }
    return resume_check_model(checkpoint, &cfg->model, lora,
            false); // token ids do not affect the loss
}

// Settings of a run that only its training uses and not every back end accepts: a run is evaluated
// on any back end.
static const char *const training_alone[] = {"training.offload=none", "training.hash_every=0"};
enum { N_ALONE = sizeof training_alone / sizeof *training_alone };

static drv_status open_set(arena *a, const cli_args *args, run_config *cfg, model_ref *model) {
    const char *target = args->n_positional ? args->positional[0] : NULL,
               *adapter = cli_get(args, "--adapter", NULL), *data = cli_get(args, "--data", NULL),
               *config = config_of(a, args);
    int n_sets;
    const char **sets = cli_get_all(a, args, "--set", &n_sets);
    const char **all = ARENA_ARRAY(a, const char *, n_sets + 1 + N_ALONE);
    int k = 0;
    if (config && adapter)
        return drv_fail(DRV_E_USAGE, "eval: --adapter goes with a model, and \"%s\" is a config",
                target);
    if (!config) {
        DRV_TRY(model_resolve(a, target, adapter, model));
        all[k++] = arena_printf(a, "model.from=%s", model->folder);
    }
    for (int i = 0; i < n_sets; i++)
        all[k++] = sets[i];
    for (int i = 0; i < N_ALONE; i++)
        all[k++] = training_alone[i];
    DRV_TRY(config_load(a, config, all, k, cfg));
    if (config && config != target) cfg->run_dir = target; // a run may have been moved or copied
    if (data) {
        cfg->valid = ARENA_NEW(a, data_source);
        *cfg->valid = (data_source){data, 1, "--data"};
        cfg->n_valid = 1;
    }
    const bool empty = cfg->n_valid == 0 && cfg->split[1] <= 0;
    if (empty && cfg->objective == OBJECTIVE_DPO) // whose pairs are scored by the run's config
        return drv_fail(DRV_E_USAGE,
                "eval: nothing to evaluate: the run has no validation pairs; give the config and pairs (drover eval %s --data PREFIX), --text PATH or --choices FILE",
                path_for_shell(a, config));
    if (empty)
        return drv_fail(DRV_E_USAGE,
                "eval: nothing to evaluate; give --data PREFIX, --text PATH or --choices FILE");
    return config ? open_run_model(a, cfg, model) : DRV_OK;
}

// A run that was never trained on such positions cannot use them.
static void warn_of_context(arena *a, const char *folder, const score_result *r) {
    json_t *run = NULL;
    const char *path = path_join(a, folder, "trainer.json");
    if (!file_exists(path) || json_read_file(path, &run) != DRV_OK) return;
    const int64_t trained = json_integer_value(json_object_get(run, "sequence_length"));
    if (trained > 0 && r->longest > trained)
        log_warn("windows have up to %lld tokens, and the run that wrote %s had rows of %lld; --context %lld evaluates it by those",
                (long long)r->longest, folder, (long long)trained, (long long)trained);
    json_decref(run);
}

// Pairs are scored with the run's order of sums, so that the figures equal those of its own
// evaluations.
static drv_status keep_blocks(run_config *cfg) {
    model_layout layout;
    DRV_TRY(run_layout_model(cfg, &layout));
    cfg->tensor_blocks = layout.all_blocks;
    return DRV_OK;
}

static drv_status eval_set(arena *a, const cli_args *args, score_opts *opts, score_result *out) {
    run_config cfg;
    model_ref model;
    DRV_TRY(open_set(a, args, &cfg, &model));
    const bool config = config_of(a, args) != NULL;
    if (cfg.objective == OBJECTIVE_DPO) DRV_TRY(keep_blocks(&cfg));
    config_one_rank(&cfg); // a checkpoint is a Hugging Face model, whatever the layout
    par_set_threads((int)cfg.threads);
    opts->model = (scorer_opts){.folder = model.folder,
            .adapter = model.adapter,
            .base = config ? cfg.base_dtype : base_of_run(a, args),
            .backend = cfg.backend,
            .device = device_opts(&cfg)};
    DRV_TRY(set_precision(a, args, &opts->model));
    if (!cli_has(args, "--precision") && (config || config_gives(&cfg, "training.precision")))
        opts->model.bf16 = cfg.precision != PRECISION_F32;
    const bool said = config || config_gives(&cfg, "data.sequence_length");
    const int64_t most = cfg.model.max_position_embeddings;
    DRV_TRY(read_windows(args, most, said ? cfg.sequence_length : most, opts));
    stop_listen();
    DRV_TRY(score_rows(a, opts, &cfg, out));
    if (!*model.adapter) warn_of_context(a, model.folder, out);
    return DRV_OK;
}

// --- texts
static drv_status read_texts(arena *a, const cli_args *args, const scorer_opts *model,
        const model_config *shape, documents *out) {
    tokenizer *t;
    documents_opts opts = {.reader = {.key = cli_get(args, "--json-key", NULL),
                                   .separator = cli_get(args, "--separator", NULL)},
            .specials = !cli_has(args, "--no-bos")};
    opts.inputs = cli_get_all(a, args, "--text", &opts.n_inputs);
    DRV_TRY(tokenizer_open(a, model_tokenizer_folder(a, model->folder, model->adapter), &t));
    drv_status status = prefix_token(t, &opts.prefix);
    if (status == DRV_OK) status = documents_read(a, t, &opts, out);
    tokenizer_close(t);
    DRV_TRY(status);
    return prefix_check_ids(out->ids.p, out->ids.n, shape->vocab_size);
}

static drv_status eval_texts(arena *a, const cli_args *args, score_opts *opts, score_result *out) {
    model_config shape;
    documents texts;
    DRV_TRY(open_model(a, args, &opts->model));
    DRV_TRY(model_config_read(opts->model.folder, &shape));
    const int64_t most = shape.max_position_embeddings;
    DRV_TRY(read_windows(args, most, most, opts));
    par_set_threads(0);
    stop_listen();
    DRV_TRY(read_texts(a, args, &opts->model, &shape, &texts));
    if (texts.skipped || texts.replaced)
        log_warn("skipped %lld record%s, replaced %lld invalid byte sequence%s",
                (long long)texts.skipped, str_plural(texts.skipped), (long long)texts.replaced,
                str_plural(texts.replaced));
    drv_status status;
    if (cli_has(args, "--logits"))
        status = logits_write(a, opts, &texts, cli_get(args, "--logits", NULL));
    else
        status = score_documents(a, opts, &texts, out);
    documents_free(&texts);
    if (status == DRV_OK && !*opts->model.adapter) warn_of_context(a, opts->model.folder, out);
    return status;
}

// --- multiple choice
// The standard error of one record is null in JSON.
static void print_choices(const choices_result *r, bool json, bool complete) {
    if (json) {
        json_t *o = json_pack("{so so so so sI sI sb}", "acc", json_of_f64(r->acc), "acc_stderr",
                json_of_f64(r->acc_err), "acc_norm", json_of_f64(r->acc_norm), "acc_norm_stderr",
                json_of_f64(r->acc_norm_err), "records", (json_int_t)r->n, "truncated",
                (json_int_t)r->n_cut, "complete", complete);
        cli_puts_json(o, json_dumps(o, JSON_REAL_PRECISION(9)));
    } else if (r->n > 1) {
        printf("acc %.4f (stderr %.4f)  acc_norm %.4f (stderr %.4f)  records %lld\n", r->acc,
                r->acc_err, r->acc_norm, r->acc_norm_err, (long long)r->n);
    } else {
        printf("acc %.4f  acc_norm %.4f  records %lld\n", r->acc, r->acc_norm, (long long)r->n);
    }
}

static drv_status eval_choices(arena *a, const cli_args *args, const scorer_opts *model) {
    const choices_opts opts = {.model = *model, .specials = !cli_has(args, "--no-bos")};
    choice_set set;
    choices_result result;
    DRV_TRY(choices_read(a, cli_get(args, "--choices", NULL), &set));
    stop_listen();
    const drv_status status = choices_score(a, &opts, &set, &result);
    if (status != DRV_OK && (status != DRV_STOPPED || result.n == 0)) return status;
    if (result.n_cut)
        log_warn("%lld choice%s longer than the model's context with the preceding text, which is truncated on the left",
                (long long)result.n_cut, result.n_cut > 1 ? "s are" : " is");
    log_info("%lld tokens in %s, %s tokens/s", (long long)result.n_tokens,
            str_long_duration(result.seconds),
            str_si((double)result.n_tokens / (result.seconds > 0 ? result.seconds : 1)));
    print_choices(&result, cli_has(args, "--json"), status == DRV_OK);
    if (status == DRV_OK) return DRV_OK;
    return drv_context(status, "%lld of %lld records are scored", (long long)result.n,
            (long long)set.n);
}

// --- results
// The perplexity of a loss above 709 exceeds a double; in JSON it is null.
static const char *number(arena *a, double x) {
    return isfinite(x) ? arena_printf(a, "%.9g", x) : "null";
}

// Prints the figures of preference pairs under their names in metrics.jsonl.
static void print_pairs(arena *a, const cli_args *args, const score_result *result) {
    const double n = (double)result->pairs, loss = result->loss / n, chosen = result->chosen / n,
                 rejected = result->rejected / n, accuracy = (double)result->right / n;
    log_info("pairs of up to %lld tokens, %s tokens/s", (long long)result->longest,
            str_si((double)result->computed / (result->seconds > 0 ? result->seconds : 1)));
    if (cli_has(args, "--json"))
        printf("{\"loss\": %s, \"pairs\": %lld, \"tokens\": %lld, \"rewards/chosen\": %s, \"rewards/rejected\": %s, "
               "\"rewards/margins\": %s, \"rewards/accuracies\": %s, \"complete\": %s}\n",
                number(a, loss), (long long)result->pairs, (long long)result->tokens,
                number(a, chosen), number(a, rejected), number(a, chosen - rejected),
                number(a, accuracy), result->complete ? "true" : "false");
    else
        printf("loss %.6f  margin %.6f (%.6f - %.6f)  accuracy %.4f  pairs %lld  tokens %lld\n",
                loss, chosen - rejected, chosen, rejected, accuracy, (long long)result->pairs,
                (long long)result->tokens);
}

static void print_json(arena *a, const score_opts *opts, const score_result *r) {
    const double loss = r->loss / (double)r->tokens;
    printf("{\"loss\": %s, \"perplexity\": %s, \"tokens\": %lld, ", number(a, loss),
            number(a, exp(loss)), (long long)r->tokens);
    if (r->documents) printf("\"documents\": %lld, ", (long long)r->documents);
    if (r->documents || r->bytes)
        printf("\"words\": %lld, \"bytes\": %lld, ", (long long)r->words, (long long)r->bytes);
    if (r->bytes)
        printf("\"word_perplexity\": %s, \"byte_perplexity\": %s, \"bits_per_byte\": %s, ",
                number(a, exp(r->loss / (double)r->words)),
                number(a, exp(r->loss / (double)r->bytes)),
                number(a, r->loss / (double)r->bytes / log(2)));
    printf("\"context\": %lld, \"stride\": %lld, \"complete\": %s}\n", (long long)opts->context,
            (long long)opts->stride, r->complete ? "true" : "false");
}

static void print_result(arena *a, const cli_args *args, const score_opts *opts,
        const score_result *r) {
    const double loss = r->loss / (double)r->tokens;
    log_info("windows of up to %lld tokens (context %lld, stride %lld), %s tokens/s",
            (long long)r->longest, (long long)opts->context, (long long)opts->stride,
            str_si((double)r->computed / (r->seconds > 0 ? r->seconds : 1)));
    if (cli_has(args, "--json")) {
        print_json(a, opts, r);
        return;
    }
    printf("loss %.6f  perplexity %.4f  tokens %lld\n", loss, exp(loss), (long long)r->tokens);
    const char *n_documents =
            r->documents ? arena_printf(a, "documents %lld  ", (long long)r->documents) : "";
    if (r->bytes)
        printf("per word %.4f  per byte %.4f  bits per byte %.6f  %swords %lld  bytes %lld\n",
                exp(r->loss / (double)r->words), exp(r->loss / (double)r->bytes),
                r->loss / (double)r->bytes / log(2), n_documents, (long long)r->words,
                (long long)r->bytes);
}

static drv_status run_eval(arena *a, const cli_args *args) {
    score_opts opts = {0};
    score_result result = {0};
    if (cli_has(args, "--choices")) {
        DRV_TRY(open_model(a, args, &opts.model));
        par_set_threads(0);
        return eval_choices(a, args, &opts.model);
    }
    drv_status status = cli_has(args, "--text") ? eval_texts(a, args, &opts, &result)
                                                : eval_set(a, args, &opts, &result);
    if (cli_has(args, "--logits")) return status;
    if (status != DRV_OK && (status != DRV_STOPPED || result.tokens == 0)) return status;
    if (result.pairs)
        print_pairs(a, args, &result);
    else
        print_result(a, args, &opts, &result);
    if (status == DRV_OK) return DRV_OK;
    return drv_context(status, "%lld tokens are scored", (long long)result.tokens);
}

const verb verb_eval = {
        .name = "eval",
        .summary = "measure the loss of texts, or the accuracy on multiple choice",
        .usage = "CONFIG|RUN_DIR|MODEL [--data PREFIX|--text PATH...|--choices FILE] [OPTION]...",
        .help = "MODEL is a Hugging Face folder (such as a checkpoint), a GGUF file or a run directory. For a run\n"
                "or its CONFIG, drover evaluates the newest valid checkpoint, by default on the run's validation\n"
                "data. MODEL can also be an adapter (a folder that PEFT saved, a checkpoint of a LoRA run); it is\n"
                "used with the base model that it names.\n"
                "\n"
                "The model predicts each token from all tokens before it in its document. If a document is longer\n"
                "than the context, drover reads it in windows, and each window predicts --stride new tokens. By\n"
                "default the stride is the whole window: the model reads most tokens once, but those at the\n"
                "beginning of a window have little context. A smaller stride gives each token a context of at\n"
                "least (context - stride) tokens and takes (context / stride) times as long. Short documents\n"
                "share a row, without attention between them. The context is the model's max_position_embeddings,\n"
                "or the sequence length if there is a CONFIG or --set data.sequence_length=N. (Validation during\n"
                "training uses rows cut as in training, so compare its loss only within the run.)\n"
                "\n"
                "--text computes what lm-evaluation-harness calls loglikelihood_rolling: drover puts the BOS\n"
                "token (or else the EOS token) before each document, so that the model predicts the first token\n"
                "too. It prints the perplexity per word and per byte, and bits per byte; use bits per byte to\n"
                "compare models with different tokenizers. If the tokenizer adds such a token itself, there are\n"
                "two and one is predicted, as in that program; --no-bos leaves one. With --data, the first token\n"
                "of a document is only context, as in training; for a data set built with --sft, only the answers\n"
                "are scored (data.loss). Bytes and words of a data set are those of its predicted tokens, if the\n"
                "model's tokenizer built it; special tokens have none.\n"
                "\n"
                "For a run with training.objective: dpo, drover scores whole validation pairs, or those of --data,\n"
                "against the log-probabilities of the reference, as in training, and prints loss, rewards, margin\n"
                "and accuracy. They equal those of the run's own evaluations, except for norms that a bf16 run\n"
                "has saved in bf16 (docs/preferences.md). For data without pairs it computes the model's loss.\n"
                "\n"
                "--choices scores each choice by its log-likelihood after the context, as lm-evaluation-harness\n"
                "does: acc takes the largest sum, acc_norm the largest sum per character of the choice; stderr is\n"
                "the standard error of the mean. FILE has one record per line, in the format of HellaSwag or ARC\n"
                "on Hugging Face, or\n"
                "    {\"context\": \"The sky is\", \"choices\": [\"blue\", \"a fish\"], \"gold\": 0}\n"
                "A space separates context and choice. --no-bos has the effect of add_bos_token=False there.\n"
                "\n"
                "--logits only writes token_ids [N] and logits [N, vocabulary] in fp32 for the first document,\n"
                "truncated to the context, so that you can compare models and programs position by position.\n"
                "\n"
                "Ctrl-C stops, prints the scores so far, and exits 3.",
        CLI_OPTIONS(eval_options),
        CLI_RULES(eval_rules),
        .max_positional = 1,
        .run = run_eval,
};
