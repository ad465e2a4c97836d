// Loads the low-rank branches of a run from PEFT folders; a checkpoint of a LoRA run is one.
#pragma once
#include "ckpt/ckpt.h"
#include "model/lora.h"
#include "weights/held_model.h"

static inline bool lora_is_on(const run_config *cfg) {
    return cfg->lora.rank > 0 || *cfg->lora.adapter;
}

// Takes rank, alpha and targets from lora.adapter into the config, if there is an adapter.
// DRV_E_USAGE: the config has other values.
DRV_CHECKED drv_status lora_resolve(arena *a, run_config *cfg);
// Lists the branches of a run: those of lora.adapter, or of the config's targets; none without
// LoRA.
DRV_CHECKED drv_status lora_of_run(arena *a, const run_config *cfg, lora_set *out);

// Loads the values of this rank's branches from the folder of an adapter. DRV_E_USAGE: it has
// branches that the run does not have. `exact`: values must be stored as F32, as for a resume.
DRV_CHECKED drv_status lora_load(held_model *model, const char *folder, bool exact);
// Loads base and adapter for a back end that holds only compute copies. The branch of an output
// weight is merged into it.
DRV_CHECKED drv_status lora_load_eval(held_model *model, const char *base, const char *folder);

// Makes the texts of a checkpoint's adapter_config.json and base.json; they live in `a`.
DRV_CHECKED drv_status lora_describe(arena *a, const run_config *cfg, const json_t *hashes,
        const char **adapter_text, const char **base);

// --- the base of a LoRA run (lora_base.c). A checkpoint names it (adapter_config.json), and has
// its config.json in base_config.json and, in base.json, the folder and the XXH3-128 of the fp32
// values of each tensor, whatever its type.
//
// Loads the base weights of a run from `folder`; *hashes by tensor, the caller owns it. Ranks read
// and hash it together.
DRV_CHECKED drv_status lora_load_base(held_model *model, const char *folder, json_t **hashes);
// Does the same on this rank alone, to any sink.
DRV_CHECKED drv_status lora_load_hashed(held_model *model, const char *folder,
        const ckpt_sink *next, json_t **hashes);
