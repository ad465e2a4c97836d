// adapter_config.json of PEFT (peft/tuners/lora/config.py, class LoraConfig, version 0.21): it is
// read strictly, because a field that a reader ignores may change the model, and it is written so
// that PEFT reads it.
#pragma once
#include "base/arena.h"
#include "base/json.h"

// A value for the modules whose path is, or ends after a dot with, a match of the expression:
// "q_proj", "layers\\.[01]\\.self_attn\\.q_proj".
typedef struct adapter_pattern {
    const char *module; // in the syntax of Python's re
    double value;
} adapter_pattern;

typedef struct adapter_config {
    int64_t rank;
    double alpha, dropout;
    bool rslora;          // scale alpha / sqrt(rank) (arXiv:2312.03732) instead of alpha / rank
    const char *base;     // base_model_name_or_path; "": not given
    const char **targets; // target_modules: names or ends of paths
    int n_targets;
    const char *target_pattern; // target_modules as a regular expression; NULL: a list
    const char **excluded;      // exclude_modules, likewise
    int n_excluded;
    const char *excluded_pattern;
    int64_t *layers;          // layers_to_transform: restricts targets to these layers
    int n_layers;             // 0: all layers
    const char **layer_lists; // layers_pattern: "layers", as an expression; none: any name
    int n_layer_lists;
    adapter_pattern *rank_patterns,
            *alpha_patterns; // exceptions; the first one that matches applies
    int n_rank_patterns, n_alpha_patterns;
} adapter_config;

// Parses the file; the result lives in `a`. DRV_E_DATA names a value of the wrong kind, or a key
// that changes the model and that drover does not support (use_dora, modules_to_save, bias, ...).
DRV_CHECKED drv_status adapter_config_parse(arena *a, const char *path, const json_t *root,
        adapter_config *out);
// Returns the file's content; the caller owns it.
json_t *adapter_config_json(const adapter_config *c);

// The settings of a module, such as "model.layers.0.self_attn.q_proj".
typedef struct adapter_choice {
    bool targeted; // the adapter applies to it
    int64_t rank;
    double scale;
} adapter_choice;
// Finds the settings of a module. DRV_E_DATA: matching an expression takes too long.
DRV_CHECKED drv_status adapter_choose(const adapter_config *c, const char *module,
        adapter_choice *out);
