// adapter_config.json of PEFT (peft/tuners/lora/config.py, class LoraConfig, version 0.21): read
// strictly, for what a reader leaves out changes the model, and written so that PEFT reads it.
#pragma once
#include "base/arena.h"
#include "base/json.h"

// A value for the modules of a name ("q_proj") or path ("layers.0.self_attn.q_proj").
typedef struct adapter_pattern {
    const char *module;
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
    bool some_layers; // layers_to_transform, exclude_modules: not every module of that name
    adapter_pattern *rank_patterns, *alpha_patterns; // exceptions; the first that fits counts
    int n_rank_patterns, n_alpha_patterns;
} adapter_config;

// Lives in `a`. DRV_E_DATA: a value of the wrong kind, or a key that changes the model and that
// drover does not do (use_dora, modules_to_save, bias, ...), by name.
DRV_CHECKED drv_status adapter_config_parse(arena *a, const char *path, const json_t *root,
        adapter_config *out);
// The caller owns the value.
json_t *adapter_config_json(const adapter_config *c);

// Rank and scale of a module, as "model.layers.0.self_attn.q_proj".
int64_t adapter_rank(const adapter_config *c, const char *module);
double adapter_scale(const adapter_config *c, const char *module);
// target_modules names it. True for every module when that is a regular expression.
bool adapter_targets(const adapter_config *c, const char *module);
