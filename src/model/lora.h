// The low-rank branches of projections (LoRA, arXiv:2106.09685) with their ranks and scales.
// Modules have Hugging Face's names: model.layers.0.self_attn.q_proj.
#pragma once
#include "base/name_map.h"
#include "config/config.h"
#include "config/model_config.h"

typedef struct lora_branch {
    const char *module;
    int64_t rank;
    double scale; // of x A^T B^T
} lora_branch;

typedef struct lora_set {
    lora_branch *branches;
    int n; // 0: no LoRA
    name_map by_module;
} lora_set;

// Makes an empty set with room for `n`, in `a`.
lora_set lora_set_new(arena *a, int n);
void lora_set_add(lora_set *set, const lora_branch *branch);
const lora_branch *lora_find(const lora_set *set, const char *module); // NULL: no branch

// Lists the branches of the config: each projection that a target matches. A target is the end of a
// name ("q_proj", "self_attn.q_proj"), a regular expression (in the syntax of Python's re) that
// matches the whole name as in PEFT, or "all-linear". DRV_E_USAGE: a target is not a valid
// expression or matches no projection.
DRV_CHECKED drv_status lora_of_config(arena *a, const lora_config *lora, const model_config *model,
        lora_set *out);

// Counts the parameters of all branches: rank (in + out) for each projection.
int64_t lora_parameters(const lora_set *set, const model_config *model);
// The same for some of the layers.
int64_t lora_parameters_of(const lora_set *set, const model_config *model, int64_t first_layer,
        int64_t n_layers);
// Returns whether a module is one of the seven projections of a layer, which may have a branch.
bool lora_is_projection(const char *module, const model_config *model);
