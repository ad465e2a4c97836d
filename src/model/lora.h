// Which projections have low-rank branches (LoRA, arXiv:2106.09685), and how much they count. The
// names of modules are Hugging Face's: model.layers.0.self_attn.q_proj.
#pragma once
#include "config/config.h"
#include "model/layout.h"

// Factor of a branch: alpha / rank, or alpha / sqrt(rank).
double lora_scale(const lora_config *lora);

// Whether a projection has a branch. A target is the last parts of its name ("q_proj",
// "self_attn.q_proj"), a POSIX extended regular expression that matches all of it, as PEFT's, or
// "all-linear".
bool lora_targets(const lora_config *lora, const char *module);

// DRV_E_USAGE: a target is no expression, or no projection of the model fits it.
DRV_CHECKED drv_status lora_check(const lora_config *lora, const model_layout *l);

// Numbers of all branches, counted from the shapes of the projections: rank (in + out) each.
int64_t lora_parameters(const lora_config *lora, const model_layout *l);
