// One YAML file -> one struct (design D10). Strict: an unknown or repeated key, a bad type, a
// number out of range or a conflict is one line with file, line, key, value, expectation and
// nearest key.
#pragma once
#include "base/arena.h"
#include "backend/caps/backend_caps.h"
#include "base/status.h"
#include "base/str.h"
#include "config/model_config.h"

enum { EVAL_TOKENS = 100000 }; // of an evaluation by default, at least (docs/adr/0005)

typedef enum precision { PRECISION_BF16, PRECISION_F32, PRECISION_F8 } precision;
// FASTEST: results depend on the kind of processor; PORTABLE: any processor gives the same bits
// (docs/adr/0036).
typedef enum arithmetic_kind { ARITHMETIC_FASTEST, ARITHMETIC_PORTABLE } arithmetic_kind;
typedef enum stage_schedule {
    SCHEDULE_AUTO,
    SCHEDULE_1F1B,
    SCHEDULE_GPIPE,
    SCHEDULE_INTERLEAVED,
    SCHEDULE_ZB_H1
} stage_schedule;
typedef enum save_dtype { SAVE_AUTO, SAVE_F32, SAVE_BF16, SAVE_F16 } save_dtype;
typedef enum master_mode { MASTER_AUTO, MASTER_F32, MASTER_BF16 } master_mode;
// In the order of the memory that they save.
typedef enum recompute_mode {
    RECOMPUTE_NONE,
    RECOMPUTE_GATHERS,
    RECOMPUTE_SELECTIVE,
    RECOMPUTE_FULL
} recompute_mode;

typedef enum offload_mode { OFFLOAD_NONE, OFFLOAD_ACTIVATIONS } offload_mode;
typedef enum schedule_type {
    SCHEDULE_COSINE,
    SCHEDULE_LINEAR,
    SCHEDULE_WSD,
    SCHEDULE_CONSTANT
} schedule_type;
// The trainer whose formula the warm-up uses (train/schedule.c).
typedef enum warmup_rule { WARMUP_TORCHTITAN, WARMUP_TRANSFORMERS, WARMUP_NEMO } warmup_rule;
typedef enum optimizer_type { OPTIMIZER_ADAMW, OPTIMIZER_MUON, OPTIMIZER_NORMUON } optimizer_type;
typedef enum pack_mode { PACK_AUTO, PACK_DOCUMENTS, PACK_STREAM, PACK_EXAMPLES } pack_mode;
typedef enum long_mode { LONG_TRUNCATE, LONG_DROP } long_mode;
typedef enum loss_mode { COUNT_AUTO, COUNT_RESPONSES, COUNT_LAST, COUNT_ALL } loss_mode;
typedef enum weights_mode {
    WEIGHTS_RANDOM,
    WEIGHTS_LOAD,
    WEIGHTS_RESUME, // with the optimizer's state and the step of a checkpoint
} weights_mode;
// The type in which the frozen base of a LoRA run is stored in memory (docs/adr/0039).
typedef enum base_dtype { BASE_AUTO, BASE_BF16, BASE_Q8_0, BASE_Q4_K, BASE_GGUF } base_dtype;
// The objective of a run: to predict the next token, or which of two responses is preferred
// (arXiv:2305.18290).
typedef enum objective_type { OBJECTIVE_TOKENS, OBJECTIVE_DPO } objective_type;

const char *precision_name(precision p); // "bf16", "fp32", "fp8"
const char *recompute_name(recompute_mode r);
const char *optimizer_name(optimizer_type t);
const char *base_dtype_name(base_dtype t);

typedef struct data_source {
    const char *prefix;
    double weight;
    const char *where; // its origin, for messages: "run.yaml:12", "--set", "--data"
} data_source;

// Low-rank adapters (arXiv:2106.09685) on a frozen model; the names are PEFT's.
typedef struct lora_config {
    int64_t rank; // 0: no LoRA, all weights are trained
    double alpha, dropout;
    bool use_rslora;             // scaled by alpha / sqrt(rank): arXiv:2312.03732
    const char **target_modules; // names, regular expressions, or "all-linear" (model/lora.h)
    int n_target_modules;
    const char *adapter; // PEFT folder to continue from, which defines all of the above; "": none
} lora_config;

typedef struct dpo_config {
    double beta, label_smoothing;
} dpo_config;

typedef struct pjrt_config {
    const char *plugin;
    const char **flags;
    int n_flags;
    int64_t devices; // of this process, a rank each; 0: auto
    double memory_fraction;
    const char *cache;
    double cache_gib;     // limit for all programs in the cache; 0: none
    int64_t compile_jobs; // programs that are compiled at a time; 0: auto
    double compile_gib;   // host memory for compiling; 0: three quarters of the free memory
    double logit_mib;     // memory for logits at a time; 0: auto
    double give_up_s;     // a device that does not answer for this long has failed
} pjrt_config;

typedef struct run_config {
    const char *file; // as given on the command line; NULL: none
    // model
    const char *preset, *from; // "" = not given
    weights_mode weights;      // see config_loads_weights
    base_dtype base_dtype;     // of matrices that are not trained; BASE_AUTO: as precision
    model_config model;        // effective; token ids only where the config itself gives them
    const char *tokenizer;     // folder; model.from when that has one; "" = none
    // data
    data_source *train, *valid; // n_train, n_valid of them
    int n_train, n_valid;
    double split[3];         // shares of train: train, valid, test; 0 0 0 = no split
    int64_t sequence_length; // tokens
    pack_mode pack;
    loss_mode loss;     // which labels count
    long_mode too_long; // examples that do not fit a row are cut off or left out
    // training
    objective_type objective;
    dpo_config dpo;
    int64_t steps;       // optimizer steps; with training.epochs 0 until config_count_steps
    int64_t given_steps; // training.steps; -1: auto
    double epochs;       // passes over data.train; 0 or less: not given
    int64_t global_batch_size, micro_batch_size, seed; // batches in rows
    precision precision;
    arithmetic_kind arithmetic;
    bool deterministic;    // repeating a program gives the same bits
    save_dtype save_dtype; // of a checkpoint's model file; SAVE_AUTO: see config_save_dtype
    precision grad_dtype;  // of sums of gradients
    recompute_mode recompute;
    offload_mode offload;
    int64_t eval_every;     // steps; 0: never
    int64_t eval_batches;   // of global_batch_size rows; 0: at least EVAL_TOKENS tokens, or all
    int64_t log_every;      // steps
    const char *status_dir; // ""; else where rank 0 keeps ranks/status
    const char *http;       // where rank 0 serves its page: config_http
    bool http_ranks;        // metrics by rank for Prometheus
    const char *http_metrics_token_file; // ""; else a token that opens /metrics alone
    int64_t threads;                     // 0: all cores
    double straggler_ratio;
    int64_t max_bad_steps;
    int64_t hash_every;   // steps; 0: never
    double max_minutes;   // of this attempt; 0: no limit
    int64_t stop_at_step; // of this attempt; 0: none
    // optimizer
    optimizer_type optimizer;
    double muon_momentum, normuon_beta2;
    int64_t muon_ns_steps;
    double lr, betas[2], eps, weight_decay, clip_grad_norm;
    bool decay_norms;         // weight_decay also applies to norms
    precision state_dtype;    // of moments
    master_mode master_dtype; // see config_has_masters
    lora_config lora;
    // schedule
    schedule_type schedule;
    warmup_rule warmup_like;
    int64_t warmup_steps; // -1: auto; see config_warmup_steps
    double warmup_ratio;  // of the steps; below 0: not given
    int64_t decay_steps;  // 0: a tenth of steps
    double min_lr;
    // parallel, in ranks
    int64_t tensor_parallel, pipeline_parallel, context_parallel, data_parallel; // data 0: auto
    double give_up_s;    // a rank that hangs for this long ends the job
    int64_t check_every; // steps; 0: never
    int64_t accum_groups, tensor_blocks, context_blocks,
            partial_sum_rows;         // 0: auto; see config_partial_sum_rows
    stage_schedule pipeline_schedule; // see config_pipeline_schedule
    int64_t virtual_stages;           // of each pipeline rank
    int64_t row_documents; // most documents in a training row, set when data is opened; 0: unknown
    // The resolved values of `auto`, set by config_set_ranks; 1 until then.
    int64_t data_ranks, n_accum_groups, n_context_blocks;
    int64_t zero_groups; // of data ranks, each with whole weights (parallel.zero_group)
    int64_t rank;        // of this process
    bool sequence_parallel, overlap;
    // zero: the level in use; given_zero: the value of the key, -1: auto. With auto, `zero` is the
    // lowest possible level until fit_choose_zero has chosen one.
    int64_t zero, given_zero;
    int64_t zero_group; // data ranks that share weights; 0: all
    // checkpoint
    int64_t checkpoint_every, checkpoint_keep; // steps (0: only at the end); how many (0: all)
    double checkpoint_give_up_minutes;         // how long saves may fail before the run ends
    double checkpoint_minutes;                 // between checkpoints; 0: only steps count
    const char *backend;
    const char *device; // profile for plans (search/device_profile.h); "" = not given
    pjrt_config pjrt;   // of backend pjrt
    const char *run_dir;
    const struct given_keys *given; // the keys that were given, for config_where; NULL: none
} run_config;

// Loads and checks a config: the file `path` (NULL: none; "-": standard input), then `sets`,
// overrides "a.b=value" of the command line. Its values live in `a` or are arguments. DRV_E_USAGE:
// a key or value is invalid; DRV_E_IO, DRV_E_DATA: the file or model.from cannot be read or used.
DRV_CHECKED drv_status config_load(arena *a, const char *path, const char *const *sets, int n_sets,
        run_config *out);

// The same for text in memory; `name` is for messages.
DRV_CHECKED drv_status config_load_text(arena *a, const char *name, const char *text,
        size_t n_bytes, run_config *out);

// Refuses overrides that are not KEY=VALUE with a single key by its present name; values are not
// checked.
DRV_CHECKED drv_status config_check_sets(arena *a, const char *const *sets, int n_sets);

// Sets the number of ranks of the job and resolves `auto` in parallel.*. DRV_E_USAGE names the
// numbers that do not divide.
DRV_CHECKED drv_status config_set_ranks(run_config *cfg, int64_t ranks);
// Computes the steps of training.epochs from the rows of an epoch and the rows that the run took in
// its first `step` steps; does nothing if training.steps is given.
void config_count_steps(run_config *cfg, int64_t epoch_rows, int64_t step, int64_t taken);
// Returns the key that determines the length of the run: "training.epochs" or "training.steps".
const char *config_length_key(const run_config *cfg);
// Returns training.http: a port, or HOST:PORT; NULL: no page.
const char *config_http(const run_config *cfg);
// Returns the steps of the warm-up: schedule.warmup_steps or the share schedule.warmup_ratio of
// cfg->steps; auto is a tenth of the steps, at most 100.
int64_t config_warmup_steps(const run_config *cfg);
// Returns parallel.schedule with auto resolved.
stage_schedule config_pipeline_schedule(const run_config *cfg);
// Returns the rows of a partial sum of the gradients (docs/adr/0026): parallel.partial_sum_rows
// with auto resolved.
int64_t config_partial_sum_rows(const run_config *cfg);
// Turns a config into one for a single rank, for work that one rank does in any training layout:
// evaluation and measurement.
void config_one_rank(run_config *cfg);
// Returns the capabilities of the config's back end.
const backend_caps *config_backend(const run_config *cfg);
// Returns whether a bf16 run keeps fp32 master weights: optimizer.master_dtype, where auto follows
// optimizer.state_dtype. Without masters the bf16 weights are the only copy.
bool config_has_masters(const run_config *cfg);
// Returns training.save_dtype with auto resolved: bf16 in a bf16 run, else f32.
save_dtype config_save_dtype(const run_config *cfg);
// Returns whether the run begins with the weights of model.from; otherwise they are random.
bool config_loads_weights(const run_config *cfg);
// Returns the origin of a key, or of the last key below a section: "run.yaml:12" or "--set"; if it
// was not given, the file or "configuration". For messages: DRV_TRY_CTX(..., "%s: tokenizer",
// config_where(cfg, "tokenizer")).
const char *config_where(const run_config *cfg, const char *path);
// Fails with DRV_E_USAGE. The message has the origin of the key and its name, then the text:
// "run.yaml:12: key "data.pack" is stream, expected documents".
DRV_CHECKED drv_status config_refuse(const run_config *cfg, const char *path, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
// Returns whether the file or an override gives the key.
bool config_gives(const run_config *cfg, const char *path);

// Prints the effective options as YAML that config_load reads back; with_help adds the meaning and
// default of each.
void config_print(const run_config *cfg, bool with_help, str *out);
// Returns the value of key number `i` on one line, as config_print prints it, and sets *path. Both
// live in `a`. NULL: there are no more keys.
const char *config_key_text(arena *a, const run_config *cfg, int i, const char **path);
// Prints a line "path: value (default: ...)" for each key that differs from its default, except for
// the model's shape, whose defaults are those of the preset.
void config_print_changed(const run_config *cfg, str *out);
// Prints a line "path: value" for each key that is the same on all ranks of a run: paths of files
// and threads may differ from host to host.
void config_print_shared(const run_config *cfg, str *out);
// Prints the reference of all keys as Markdown: docs/keys.md.
void config_print_reference(str *out);
