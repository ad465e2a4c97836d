// The model that a run begins with, and what must hold between keys: each rule names the keys,
// their values and the place that gave them.
#include <string.h>

#include "base/file.h"
#include "base/host_port.h"
#include "base/hub_name.h"
#include "source/checkpoint_names.h"
#include "source/model_source.h"
#include "config/config_internal.h"

// --- model.preset and model.from
static drv_status unknown_preset(arena *a, const run_config *cfg) {
    const char **names = ARENA_ARRAY(a, const char *, n_model_presets);
    str all = {0};
    for (int i = 0; i < n_model_presets; i++) {
        names[i] = model_preset_name(i);
        str_printf(&all, "%s%s", i ? " " : "", names[i]);
    }
    const char *near = str_nearest(cfg->preset, names, n_model_presets);
    const drv_status status = config_refuse(cfg, "model.preset",
            "is \"%.80s\", expected one of: %s%s%s%s", cfg->preset, all.p,
            near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    str_free(&all);
    return status;
}

// Refuses a path that is not a model, and says what to give instead.
static drv_status check_place(arena *a, const run_config *cfg) {
    const char *from = cfg->from;
    if (!file_exists(from))
        return config_refuse(cfg, "model.from", "is \"%s\", which is neither a folder nor a file%s",
                from, hub_hint(a, from));
    if (!file_is_dir(from) && str_ends(from, ".gguf"))
        return config_refuse(cfg, "model.from",
                "is \"%s\", a GGUF file; make a folder of it first: drover ckpt import %s --out DIR "
                "(--keep-blocks, for model.base_dtype: gguf)",
                from, path_for_shell(a, from));
    if (!file_is_dir(from) || model_source_is(a, from) ||
            file_exists(path_join(a, from, "config.json")))
        return DRV_OK;
    const char *run = ckpt_run_hint(a, from);
    return config_refuse(cfg, "model.from", "is \"%s\", %s", from,
            run ? run : "which has no config.json, expected a Hugging Face folder");
}

// Reads the sizes of a model; those of a format without config.json follow from its files.
static drv_status read_sizes(arena *a, const char *from, model_config *out) {
    model_source source;
    json_t *config;
    if (file_exists(path_join(a, from, "config.json"))) return model_config_read(from, out);
    DRV_TRY(model_source_open(a, from, &source));
    drv_status status = model_source_config(&source, &config);
    model_source_close(&source);
    DRV_TRY(status);
    status = model_config_of_json(from, config, out);
    json_decref(config);
    return status;
}

// Refuses weights that have another name than a reader looks for. Ones that are missing are
// refused when they are loaded.
static drv_status check_weights(arena *a, const run_config *cfg) {
    const char *foreign = model_source_is(a, cfg->from) ? NULL : model_source_foreign(a, cfg->from);
    if (!foreign) return DRV_OK;
    return config_refuse(cfg, "model.from",
            "is \"%s\", which has no weights of a known name, but %s; or give model.weights: random",
            cfg->from, foreign);
}

drv_status config_base_model(arena *a, run_config *cfg) {
    cfg->model = model_config_defaults();
    if (*cfg->preset && *cfg->from)
        return drv_fail(DRV_E_USAGE,
                "%s: model.from \"%s\" and model.preset \"%s\" (%s) exclude each other",
                config_where(cfg, "model.from"), cfg->from, cfg->preset,
                config_where(cfg, "model.preset"));
    if (*cfg->preset && !model_preset(cfg->preset, &cfg->model)) return unknown_preset(a, cfg);
    if (*cfg->from) {
        DRV_TRY(check_place(a, cfg));
        DRV_TRY_CTX(read_sizes(a, cfg->from, &cfg->model), "%s: model.from",
                config_where(cfg, "model.from"));
        if (!config_gives(cfg, "model.weights")) cfg->weights = WEIGHTS_LOAD;
        if (config_loads_weights(cfg)) DRV_TRY(check_weights(a, cfg));
    } else if (config_loads_weights(cfg)) {
        return config_refuse(cfg, "model.weights",
                "is \"%s\", which needs model.from, the folder to load them from",
                cfg->weights == WEIGHTS_RESUME ? "resume" : "load");
    }
    return DRV_OK;
}

// Returns whether two paths lead to one folder; each is a folder, or a file in one.
static bool same_folder(arena *a, const char *x, const char *y) {
    x = path_folder(a, x);
    y = path_folder(a, y);
    return strcmp(x, y) == 0 || file_is_same(x, y);
}

void config_choose_ids(arena *a, run_config *cfg) {
    if (!*cfg->from || !*cfg->tokenizer || same_folder(a, cfg->tokenizer, cfg->from)) return;
    if (!config_gives(cfg, "model.bos_token_id")) cfg->model.bos_token_id = -1;
    if (!config_gives(cfg, "model.pad_token_id")) cfg->model.pad_token_id = -1;
    if (!config_gives(cfg, "model.eos_token_id")) cfg->model.n_eos = 0;
}

// --- rules over several keys
static drv_status check_model(run_config *cfg) {
    static const char *const llama3_only[] = {"model.rope_scaling.factor",
            "model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor",
            "model.rope_scaling.original_max_position_embeddings"};
    if (cfg->model.vocab_size == 0 && cfg->model.hidden_size == 0)
        return drv_fail(DRV_E_USAGE,
                "%s: no model, expected model.preset, model.from, or the fields of a config.json "
                "under model",
                config_where(cfg, "model"));
    for (size_t i = 0; i < sizeof llama3_only / sizeof *llama3_only; i++)
        if (cfg->model.rope_type == ROPE_DEFAULT && config_gives(cfg, llama3_only[i]))
            return config_refuse(cfg, llama3_only[i],
                    "is given, which needs model.rope_scaling.rope_type: llama3");
    return model_config_check(config_where(cfg, "model"), "model.", &cfg->model);
}

const backend_caps *config_backend(const run_config *cfg) {
    return backend_caps_of(cfg->backend);
}

static int64_t context_blocks(const run_config *cfg) {
    return cfg->context_blocks ? cfg->context_blocks : cfg->context_parallel;
}

// Names what adds whole micro-batches up, in sums that know no rows (docs/adr/0026). NULL: nothing.
static const char *adds_whole(const run_config *cfg) {
    if (!config_backend(cfg)->orders_sums) return cfg->backend;
    if (cfg->given_zero < 0) return "parallel.zero auto";
    if (cfg->zero >= 2) return cfg->zero == 2 ? "parallel.zero 2" : "parallel.zero 3";
    return cfg->grad_dtype == PRECISION_BF16 ? "training.grad_dtype bf16" : NULL;
}

int64_t config_partial_sum_rows(const run_config *cfg) {
    if (cfg->partial_sum_rows) return cfg->partial_sum_rows;
    return adds_whole(cfg) ? cfg->micro_batch_size : 1;
}

static drv_status check_partial_sums(const run_config *cfg) {
    const char *whole = adds_whole(cfg);
    if (cfg->micro_batch_size % config_partial_sum_rows(cfg) != 0)
        return config_refuse(cfg, "parallel.partial_sum_rows",
                "is %lld, expected a divisor of training.micro_batch_size %lld",
                (long long)cfg->partial_sum_rows, (long long)cfg->micro_batch_size);
    if (whole && config_partial_sum_rows(cfg) < cfg->micro_batch_size)
        return config_refuse(cfg, "parallel.partial_sum_rows",
                "is %lld, but %s%s adds whole micro-batches up, expected "
                "auto or training.micro_batch_size %lld",
                (long long)cfg->partial_sum_rows, whole == cfg->backend ? "backend " : "", whole,
                (long long)cfg->micro_batch_size);
    return DRV_OK;
}

// The memory that a machine has decides no bit: where it chooses the level, all levels have the
// groups of level 1, if the order of sums is ours.
static int64_t accum_groups(const run_config *cfg) {
    const bool any_level = cfg->given_zero < 0 && config_backend(cfg)->orders_sums;
    if (cfg->accum_groups) return cfg->accum_groups;
    return cfg->zero >= 2 && !any_level ? cfg->zero_groups : cfg->data_ranks;
}

// One data rank shares with no other, whatever the key says.
static drv_status set_zero_groups(run_config *cfg) {
    const bool shares = cfg->zero_group && cfg->data_ranks > 1;
    cfg->zero_groups = 1;
    if (cfg->zero_group && cfg->given_zero < 0) cfg->zero = 3;
    if (cfg->zero_group && cfg->zero != 3)
        return config_refuse(cfg, "parallel.zero_group",
                "is %lld, data ranks that share weights, but parallel.zero is %lld; "
                "expected zero 3, or zero_group auto",
                (long long)cfg->zero_group, (long long)cfg->zero);
    if (shares && cfg->data_ranks % cfg->zero_group != 0)
        return config_refuse(cfg, "parallel.zero_group",
                "is %lld, expected a divisor of the %lld data-parallel ranks",
                (long long)cfg->zero_group, (long long)cfg->data_ranks);
    if (shares) cfg->zero_groups = cfg->data_ranks / cfg->zero_group;
    return DRV_OK;
}

drv_status config_set_ranks(run_config *cfg, int64_t ranks) {
    const int64_t others = cfg->tensor_parallel * cfg->pipeline_parallel * cfg->context_parallel;
    if (ranks % others != 0)
        return drv_fail(DRV_E_USAGE,
                "%s: %lld rank%s started, expected a multiple of tensor %lld x pipeline %lld x "
                "context %lld",
                config_where(cfg, "parallel"), (long long)ranks, ranks > 1 ? "s were" : " was",
                (long long)cfg->tensor_parallel, (long long)cfg->pipeline_parallel,
                (long long)cfg->context_parallel);
    if (cfg->data_parallel && cfg->data_parallel * others != ranks)
        return config_refuse(cfg, "parallel.data",
                "is %lld, but %lld rank%s started, expected mpirun -n %lld or parallel.data: auto",
                (long long)cfg->data_parallel, (long long)ranks, ranks > 1 ? "s were" : " was",
                (long long)(cfg->data_parallel * others));
    DRV_TRY(check_partial_sums(cfg));
    cfg->data_ranks = ranks / others;
    DRV_TRY(set_zero_groups(cfg));
    cfg->n_accum_groups = accum_groups(cfg);
    // Only these levels have fewer groups than ranks.
    if (cfg->given_zero < 0 && cfg->zero < 2 && cfg->n_accum_groups % cfg->data_ranks != 0)
        cfg->zero = 2;
    cfg->n_context_blocks = context_blocks(cfg);
    const int64_t shares = cfg->micro_batch_size * cfg->data_ranks;
    if (cfg->global_batch_size % shares != 0)
        return drv_fail(DRV_E_USAGE,
                "%s: key \"training.global_batch_size\" is %lld, expected a multiple of "
                "micro_batch_size %lld x data-parallel ranks %lld",
                config_where(cfg, "training"), (long long)cfg->global_batch_size,
                (long long)cfg->micro_batch_size, (long long)cfg->data_ranks);
    const int64_t micro_batches = cfg->global_batch_size / cfg->micro_batch_size;
    if (micro_batches % cfg->n_accum_groups != 0)
        return config_refuse(cfg, "parallel.accumulation_groups",
                "is %lld, expected a divisor of the %lld micro-batches of a step",
                (long long)cfg->n_accum_groups, (long long)micro_batches);
    if (cfg->zero < 2 && cfg->n_accum_groups % cfg->data_ranks != 0)
        return config_refuse(cfg, "parallel.accumulation_groups",
                "is %lld, expected a multiple of the %lld data-parallel "
                "ranks, or parallel.zero: 2 or 3",
                (long long)cfg->n_accum_groups, (long long)cfg->data_ranks);
    if (cfg->n_accum_groups % cfg->zero_groups != 0)
        return config_refuse(cfg, "parallel.accumulation_groups",
                "is %lld, expected a multiple of the %lld groups of parallel.zero_group %lld",
                (long long)cfg->n_accum_groups, (long long)cfg->zero_groups,
                (long long)cfg->zero_group);
    return DRV_OK;
}

static bool is_power_of_two(int64_t n) {
    return n > 0 && (n & (n - 1)) == 0;
}

// Rows are cut in two chunks a reduction block, and each rank has 1, 2, 4, ... reduction blocks
// (ir/zigzag.h).
static drv_status check_context(const run_config *cfg) {
    const int64_t ranks = cfg->context_parallel, blocks = context_blocks(cfg);
    if (blocks % ranks != 0 || !is_power_of_two(blocks / ranks))
        return config_refuse(cfg, "parallel.context_blocks",
                "is %lld, expected parallel.context %lld x 1, 2, 4, ...", (long long)blocks,
                (long long)ranks);
    if (blocks > ranks && cfg->sequence_length % (2 * blocks) != 0)
        return config_refuse(cfg, "data.sequence_length",
                "is %lld, expected a multiple of %lld: two chunks for "
                "each of parallel.context_blocks %lld",
                (long long)cfg->sequence_length, (long long)(2 * blocks), (long long)blocks);
    if (ranks > 1 && cfg->sequence_length % (2 * ranks) != 0)
        return config_refuse(cfg, "data.sequence_length",
                "is %lld, expected a multiple of %lld: two chunks for "
                "each of parallel.context %lld ranks",
                (long long)cfg->sequence_length, (long long)(2 * ranks), (long long)ranks);
    return DRV_OK;
}

static drv_status check_pipeline(const run_config *cfg) {
    const bool interleaved = config_pipeline_schedule(cfg) == SCHEDULE_INTERLEAVED;
    if (cfg->virtual_stages == 1 || (cfg->pipeline_parallel > 1 && interleaved)) return DRV_OK;
    return config_refuse(cfg, "parallel.virtual_stages",
            "is %lld, expected 1, or parallel.pipeline above 1 and parallel.schedule: interleaved",
            (long long)cfg->virtual_stages);
}

// Refuses hashes where a step is one program: its gradients do not come back from the device.
static drv_status check_hashes(const run_config *cfg) {
    if (cfg->hash_every == 0 || config_backend(cfg)->keeps_gradients) return DRV_OK;
    return config_refuse(cfg, "training.hash_every",
            "is %lld, expected 0 with backend %s: only that of cpu keeps gradients",
            (long long)cfg->hash_every, cfg->backend);
}

static drv_status check_arithmetic(const run_config *cfg) {
    if (cfg->arithmetic == ARITHMETIC_FASTEST || config_backend(cfg)->is_processor) return DRV_OK;
    return config_refuse(cfg, "training.arithmetic",
            "is portable, expected fastest with backend %s, whose compiler orders sums itself",
            cfg->backend);
}

static drv_status check_offload(const run_config *cfg) {
    if (cfg->offload == OFFLOAD_NONE || !config_backend(cfg)->uses_host_memory) return DRV_OK;
    return config_refuse(cfg, "training.offload",
            "is activations, but backend %s has no memory beside the host's, expected none (training.recompute full needs less memory)",
            cfg->backend);
}

void config_one_rank(run_config *cfg) {
    cfg->tensor_parallel = cfg->pipeline_parallel = cfg->context_parallel = 1;
    cfg->virtual_stages = 1;
    cfg->data_parallel = cfg->data_ranks = cfg->zero_groups = 1;
    cfg->accum_groups = cfg->n_accum_groups = 1;
    cfg->context_blocks = cfg->n_context_blocks = 1;
    cfg->rank = 0;
}

// As if the ranks that the config asks for were there.
static drv_status check_ranks(run_config *cfg) {
    const int64_t data = cfg->data_parallel ? cfg->data_parallel : 1;
    const int64_t others = cfg->tensor_parallel * cfg->pipeline_parallel * cfg->context_parallel;
    return config_set_ranks(cfg, data * others);
}

static drv_status check_batch(const run_config *cfg) {
    if (cfg->micro_batch_size * cfg->sequence_length > (1 << 30))
        return drv_fail(DRV_E_USAGE,
                "%s: training.micro_batch_size %lld x data.sequence_length %lld is more than 2^30 "
                "tokens",
                config_where(cfg, "training.micro_batch_size"), (long long)cfg->micro_batch_size,
                (long long)cfg->sequence_length);
    if (cfg->sequence_length > cfg->model.max_position_embeddings)
        return config_refuse(cfg, "data.sequence_length",
                "is %lld, expected at most model.max_position_embeddings %lld",
                (long long)cfg->sequence_length, (long long)cfg->model.max_position_embeddings);
    return DRV_OK;
}

const char *config_http(const run_config *cfg) {
    return !*cfg->http || strcmp(cfg->http, "none") == 0 ? NULL : cfg->http;
}

static drv_status check_http(const run_config *cfg) {
    host_port parsed;
    const char *where = config_http(cfg);
    if (!where || (host_port_parse(where, &parsed) && parsed.port >= 0)) return DRV_OK;
    return config_refuse(cfg, "training.http",
            "is \"%.80s\", expected none, a port from 0 to 65535, or HOST:PORT", where);
}

static drv_status check_data(const run_config *cfg) {
    const double total = cfg->split[0] + cfg->split[1] + cfg->split[2];
    if (!(total > 0)) return DRV_OK;
    if (cfg->n_valid > 0)
        return drv_fail(DRV_E_USAGE,
                "%s: data.valid and data.split (%s) exclude each other: evaluate on a data set or on "
                "a share of data.train",
                config_where(cfg, "data.valid"), config_where(cfg, "data.split"));
    if (!(cfg->split[0] > 0))
        return config_refuse(cfg, "data.split", "begins with 0, expected a share to train on");
    return DRV_OK;
}

static drv_status check_schedule(const run_config *cfg) {
    if (cfg->min_lr > cfg->lr)
        return config_refuse(cfg, "schedule.min_lr", "is %g, expected at most optimizer.lr %g",
                cfg->min_lr, cfg->lr);
    if (cfg->decay_steps > 0 && cfg->schedule == SCHEDULE_CONSTANT)
        return config_refuse(cfg, "schedule.decay_steps",
                "is %lld, but schedule.type constant has no decay; expected 0, or another type",
                (long long)cfg->decay_steps);
    return DRV_OK;
}

// A section lora without a rank has PEFT's default; what an adapter says stays open (rank and alpha
// 0, no targets).
static drv_status check_lora(arena *a, run_config *cfg) {
    enum { DEFAULT_RANK = 8 };
    static const char *const others[] = {"lora.alpha", "lora.dropout", "lora.use_rslora",
            "lora.target_modules"};
    lora_config *lora = &cfg->lora;
    bool any = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        any |= config_gives(cfg, others[i]);
    if (*lora->adapter && config_gives(cfg, "lora.rank") && lora->rank == 0)
        return config_refuse(cfg, "lora.adapter",
                "is \"%s\", but lora.rank 0 says that there is no LoRA", lora->adapter);
    if (*lora->adapter) return DRV_OK;
    if (!config_gives(cfg, "lora.rank") && any) lora->rank = DEFAULT_RANK;
    if (lora->n_target_modules == 0) {
        lora->n_target_modules = 2;
        lora->target_modules = ARENA_ARRAY(a, const char *, 2);
        lora->target_modules[0] = "q_proj";
        lora->target_modules[1] = "v_proj";
    }
    if (lora->rank == 0 || lora->alpha > 0) return DRV_OK;
    if (config_gives(cfg, "lora.alpha"))
        return config_refuse(cfg, "lora.alpha",
                "is 0, expected more: the adapters would add nothing");
    lora->alpha = (double)lora->rank;
    return DRV_OK;
}

static bool trains_adapters(const run_config *cfg) {
    return cfg->lora.rank > 0 || *cfg->lora.adapter;
}

// A base that is trained is held in the types of the optimizer's keys.
static drv_status check_base(const run_config *cfg) {
    const char *type = base_dtype_name(cfg->base_dtype);
    if (cfg->base_dtype == BASE_AUTO) return DRV_OK;
    if (!trains_adapters(cfg))
        return config_refuse(cfg, "model.base_dtype",
                "is %s, but without a section lora all weights are trained; expected lora.rank above "
                "0, or auto",
                type);
    if (!config_backend(cfg)->widens_blocks)
        return config_refuse(cfg, "model.base_dtype",
                "is %s, which backend %s does not widen, expected auto, or backend cpu", type,
                cfg->backend);
    if (cfg->base_dtype == BASE_GGUF && !*cfg->from)
        return config_refuse(cfg, "model.base_dtype",
                "is gguf, expected model.from, a folder that drover ckpt import --keep-blocks has "
                "made of a GGUF file");
    return DRV_OK;
}

// Refuses what Muon cannot do: its momentum and the weights are kept in fp32, and low-rank branches
// are not the matrices that it is for.
static drv_status check_optimizer(const run_config *cfg) {
    const char *type = optimizer_name(cfg->optimizer);
    if (cfg->optimizer == OPTIMIZER_ADAMW) return DRV_OK;
    if (cfg->state_dtype == PRECISION_BF16)
        return config_refuse(cfg, "optimizer.type",
                "is %s and optimizer.state_dtype is bf16, expected fp32: the momentum of Muon is not "
                "rounded",
                type);
    if (cfg->precision != PRECISION_F32 && !config_has_masters(cfg))
        return config_refuse(cfg, "optimizer.type",
                "is %s and optimizer.master_dtype is bf16, expected fp32: Muon updates fp32 masters",
                type);
    if (trains_adapters(cfg))
        return config_refuse(cfg, "optimizer.type",
                "is %s, but of a LoRA run only adapters are trained (lora.rank %lld), which are "
                "AdamW's; expected adamw",
                type, (long long)cfg->lora.rank);
    return DRV_OK;
}

// A run that goes on from another one's state is the same training.
static drv_status check_resume(const run_config *cfg) {
    if (cfg->weights != WEIGHTS_RESUME) return DRV_OK;
    if (trains_adapters(cfg))
        return config_refuse(cfg, "model.weights",
                "is resume, but of a LoRA run only adapters are trained, of which "
                "the checkpoint has no state; expected load");
    if (cfg->objective != OBJECTIVE_DPO) return DRV_OK;
    return config_refuse(cfg, "model.weights",
            "is resume, but with training.objective dpo the model at step 0 is the "
            "reference; expected load");
}

#define DPO_BETA 0.1 // the default of dpo.beta

// Pairs have rows and a loss of their own.
static drv_status check_objective(const run_config *cfg) {
    if (cfg->objective != OBJECTIVE_DPO) {
        const bool beta = cfg->dpo.beta != DPO_BETA; // printed configs give all keys
        if (!beta && cfg->dpo.label_smoothing == 0) return DRV_OK;
        const char *key = beta ? "dpo.beta" : "dpo.label_smoothing";
        return config_refuse(cfg, key, "is %g, but training.objective is tokens; expected dpo",
                beta ? cfg->dpo.beta : cfg->dpo.label_smoothing);
    }
    if (cfg->pack == PACK_DOCUMENTS || cfg->pack == PACK_STREAM)
        return config_refuse(cfg, "data.pack",
                "is %s, expected auto or examples with training.objective dpo: a pair stays whole",
                cfg->pack == PACK_STREAM ? "stream" : "documents");
    if (cfg->loss == COUNT_AUTO || cfg->loss == COUNT_RESPONSES) return DRV_OK;
    return config_refuse(cfg, "data.loss",
            "is %s, expected auto or responses with training.objective dpo: the loss is on both responses",
            cfg->loss == COUNT_LAST ? "last" : "all");
}

drv_status config_check(arena *a, run_config *cfg) {
    cfg->zero = cfg->given_zero < 0 ? 1 : cfg->given_zero;
    DRV_TRY(check_model(cfg));
    DRV_TRY(check_pipeline(cfg));
    DRV_TRY(check_ranks(cfg));
    DRV_TRY(check_batch(cfg));
    DRV_TRY(check_hashes(cfg));
    DRV_TRY(check_arithmetic(cfg));
    DRV_TRY(check_offload(cfg));
    DRV_TRY(check_data(cfg));
    DRV_TRY(check_objective(cfg));
    DRV_TRY(check_resume(cfg));
    DRV_TRY(check_http(cfg));
    DRV_TRY(check_lora(a, cfg));
    DRV_TRY(check_base(cfg));
    DRV_TRY(check_optimizer(cfg));
    DRV_TRY(check_context(cfg));
    DRV_TRY(config_check_length(cfg));
    return check_schedule(cfg);
}
