// PEFT's folder of a LoRA adapter (arXiv:2106.09685): adapter_config.json and
// adapter_model.safetensors, whose tensors are called base_model.model.MODULE.lora_A.weight [r, in]
// and .lora_B.weight [out, r]. The adapted weight of MODULE is W + scale B A.
#pragma once
#include "ckpt/adapter_config.h"
#include "ckpt/ckpt.h"

typedef struct adapter_module {
    const char *weight;         // of the base: "model.layers.0.self_attn.q_proj.weight"
    const source_tensor *a, *b; // [r, in], [out, r]
    const source_tensor *copy;  // of the base's weight, which PEFT adds for lm_head; NULL: none
    int64_t rank;
    double scale;
} adapter_module;

typedef struct adapter { // single owner
    const char *path;
    adapter_config config;
    model_source tensors;
    adapter_module *modules; // in the order of A in the file
    int n;
    name_map by_weight;
} adapter;

// Opens an adapter, which lives in `a`; the caller closes it. DRV_E_DATA: a feature that drover
// does not support (the message names it), an A without its B, or a wrong shape or rank.
DRV_CHECKED drv_status adapter_open(arena *a, const char *path, adapter *out);
void adapter_close(adapter *ad); // also allowed after adapter_open failed
const adapter_module *adapter_find(const adapter *ad, const char *weight); // NULL: none

// Checks that every module is a matrix of the base model with the right shape, that a copy in the
// adapter has the base's values, and that every matrix that target_modules selects has its A and B.
// `list`: the tensors of the model, since a folder may have more, such as a copy of a tied output
// weight. DRV_E_DATA names the tensor.
DRV_CHECKED drv_status adapter_check_base(const adapter *ad, const model_source *base,
        const ckpt_tensor *list, int n);

// Checks a base against base.json, the hashes of its tensors that drover writes into an adapter's
// folder; does nothing if there is none (PEFT's own folders), so that any base of the right shapes
// fits. `hashes` has those of all tensors of the base; NULL: those that are listed are computed
// from `source`, which else is NULL. DRV_E_DATA names the first tensor that differs or is missing.
DRV_CHECKED drv_status adapter_check_hashes(const char *folder, const char *base,
        const json_t *hashes, const model_source *source);
// Computes the hash of a tensor in base.json: the XXH3-128 of its values as fp32, in hexadecimal
// digits; or adds its values to a hash of several.
struct XXH3_state_s;
DRV_CHECKED drv_status source_hash_f32(const model_source *base, const source_tensor *t,
        char hex[33]);
DRV_CHECKED drv_status source_hash_add(const model_source *base, const source_tensor *t,
        struct XXH3_state_s *state);
// Warns if an adapter without base.json names another base than this one.
void adapter_warn_of_base(const adapter *ad, const char *base);

// Returns PEFT's name for A ('A') or B ('B') of a weight of the base; lives in `a`.
const char *adapter_tensor_name(arena *a, const char *weight, char which);
bool adapter_is_folder(arena *a, const char *path); // whether it has an adapter_config.json
