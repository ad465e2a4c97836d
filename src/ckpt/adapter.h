// PEFT's folder of a LoRA adapter (arXiv:2106.09685): adapter_config.json and
// adapter_model.safetensors, whose tensors are called base_model.model.MODULE.lora_A.weight [r, in]
// and .lora_B.weight [out, r]. With it the weight W of MODULE stands for W + scale B A.
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

// Lives in `a`, but is closed by hand. DRV_E_DATA: what drover does not do, by name; A without B; a
// shape or rank that does not fit.
DRV_CHECKED drv_status adapter_open(arena *a, const char *path, adapter *out);
void adapter_close(adapter *ad); // fine when opening failed
const adapter_module *adapter_find(const adapter *ad, const char *weight); // NULL: none

// Checks that every module is a matrix of the base's model, of the right shape, with the same
// values where the adapter has a copy, and every matrix that target_modules names has its A and B.
// `list`: the tensors of the model, for a folder may have more: a tied output weight a second time.
// DRV_E_DATA: by name.
DRV_CHECKED drv_status adapter_check_base(const adapter *ad, const model_source *base,
        const ckpt_tensor *list, int n);

// Checks that the base has the tensors of base.json, which drover writes beside an adapter; nothing
// where there is none. Reads all of the base. DRV_E_DATA: the first tensor that differs.
DRV_CHECKED drv_status adapter_check_hashes(const adapter *ad, const model_source *base);
// XXH3-128 of the values of a tensor as fp32, in hexadecimal digits: what base.json holds of each.
DRV_CHECKED drv_status source_hash_f32(const model_source *base, const source_tensor *t,
        char hex[33]);
// Warns where an adapter without base.json says that it was trained on a base of another name.
void adapter_warn_of_base(const adapter *ad, const char *base);

// PEFT's name for A ('A') or B ('B') of a weight of the base; lives in `a`.
const char *adapter_tensor_name(arena *a, const char *weight, char which);
bool adapter_is_folder(arena *a, const char *path); // it has an adapter_config.json
