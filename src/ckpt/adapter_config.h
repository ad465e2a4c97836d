// adapter_config.json of PEFT (peft/tuners/lora/config.py, class LoraConfig, version 0.21): read
// strictly, for what a reader leaves out changes the model, and written so that PEFT reads it.
#pragma once
#include "base/arena.h"
#include "base/json.h"

// A value for the modules whose path ends, after a dot, with what the expression matches: "q_proj",
// "layers\\.[01]\\.self_attn\\.q_proj".
typedef struct adapter_pattern {
    const char *module; // in the syntax of Python's re
    double value;
} adapter_pattern;

typedef struct adapter_config {
    int64_t rank;
    double alpha, dropout;
    bool rslora;          // scale alpha / sqrt(rank) (arXiv:2312.03732) instead of alpha / rank
    const char *base;     // base_model_name_or_path; "": not said
    const char **targets; // target_modules: names or ends of paths
    int n_targets;
    const char *target_pattern; // target_modules as a regular expression; NULL: a list
    const char **excluded;      // exclude_modules, likewise
    int n_excluded;
    const char *excluded_pattern;
    int64_t *layers; // layers_to_transform: of the targets by name those in these layers alone
    int n_layers;    // 0: in all
    const char **layer_lists; // layers_pattern: "layers", as an expression; none: any name
    int n_layer_lists;
    adapter_pattern *rank_patterns, *alpha_patterns; // exceptions; the first that fits counts
    int n_rank_patterns, n_alpha_patterns;
} adapter_config;

// Lives in `a`. DRV_E_DATA: a value of the wrong kind, or a key that changes the model and that
// drover does not do (use_dora, modules_to_save, bias, ...), by name.
DRV_CHECKED drv_status adapter_config_parse(arena *a, const char *path, const json_t *root,
        adapter_config *out);
// The caller owns the value.
json_t *adapter_config_json(const adapter_config *c);

// The branch of a module, as "model.layers.0.self_attn.q_proj".
typedef struct adapter_choice {
    bool targeted; // it has a branch
    int64_t rank;
    double scale;
} adapter_choice;
// DRV_E_DATA: an expression takes too long.
DRV_CHECKED drv_status adapter_choose(const adapter_config *c, const char *module,
        adapter_choice *out);
