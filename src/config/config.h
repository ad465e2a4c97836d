// One YAML file -> one struct (design D10). Strict: an unknown or repeated key, a bad type, a
// number out of range or a conflict is one line with file, line, key, value, expectation and
// nearest key.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "config/model_config.h"

enum { MAX_BLEND = 64 };

typedef enum precision { PRECISION_BF16, PRECISION_F32 } precision;
typedef enum recompute_mode { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL } recompute_mode;
typedef enum schedule_type {
    SCHEDULE_COSINE,
    SCHEDULE_LINEAR,
    SCHEDULE_WSD,
    SCHEDULE_CONSTANT
} schedule_type;
typedef enum pack_mode { PACK_DOCUMENTS, PACK_STREAM } pack_mode;

typedef struct data_source {
    const char *prefix;
    double weight;
} data_source;

typedef struct run_config {
    const char *file; // as given on the command line
    // model
    const char *preset, *from, *weights; // weights: "random" or "load"
    model_config model;                  // effective
    const char *tokenizer;               // folder; "" = none
    // data
    data_source train[MAX_BLEND], valid[MAX_BLEND];
    int n_train, n_valid;
    double split[3]; // of train: train, valid, test; 0 0 0 = no split
    int64_t sequence_length;
    int pack;
    // training
    int64_t steps, global_batch_size, micro_batch_size, seed;
    int precision, recompute;
    int64_t eval_every, eval_batches, log_every, threads, max_bad_steps;
    // optimizer
    double lr, beta1, beta2, eps, weight_decay, clip_grad_norm;
    // schedule
    int schedule;
    int64_t warmup_steps, decay_steps;
    double min_lr;
    // parallel
    int64_t tensor_parallel, pipeline_parallel, context_parallel, data_parallel;
    bool sequence_parallel;
    int64_t zero;
    // checkpoint
    int64_t checkpoint_every, checkpoint_keep;
    const char *backend;
    const char *run_dir;
} run_config;

// `sets` are "a.b=value" overrides of the command line, applied after the file.
DRV_CHECKED drv_status config_load(arena *a, const char *path, const char *const *sets, int n_sets,
        run_config *out);
// The defaults with a preset, for commands that run without a file.
DRV_CHECKED drv_status config_from_sets(arena *a, const char *const *sets, int n_sets,
        run_config *out);

// The effective options as YAML that config_load reads; with_help adds what each means.
void config_print(const run_config *c, bool with_help, str *out);
