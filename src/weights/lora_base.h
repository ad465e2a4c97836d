// Loads and identifies the base model of a LoRA run. A checkpoint of such a run names the base
// (adapter_config.json) and has a hash of each of its tensors:
//
//   base.json          folder, and XXH3-128 of the fp32 values of each tensor: whatever the format
//   base_config.json   the config.json of the base
#pragma once
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "weights/held_model.h"

// Loads the base weights of a run from `folder`; *hashes by tensor, the caller owns it. Ranks read
// and hash it together.
DRV_CHECKED drv_status lora_load_base(held_model *model, const char *folder, json_t **hashes);
// Does the same on this rank alone, to any sink.
DRV_CHECKED drv_status lora_load_hashed(held_model *model, const char *folder,
        const ckpt_sink *next, json_t **hashes);
