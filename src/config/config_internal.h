// Between the files of config: loading (config.c), the model a run begins with and what must hold
// together (check.c), and the answer to keys that do not exist (unknown_key.c).
#pragma once
#include "config/config.h"
#include "config/value.h"

// Fills cfg->model from the preset or from model.from, and the default of model.weights.
DRV_CHECKED drv_status config_base_model(arena *a, run_config *cfg);
// Drops the token ids of model.from's config.json when another tokenizer makes the data.
void config_choose_ids(run_config *cfg);
// Rules over several keys; fills in the shape of heads.
DRV_CHECKED drv_status config_check(arena *a, run_config *cfg);
// Refuses two answers to how long the run or its warm-up is; sets cfg->steps where no data is needed.
DRV_CHECKED drv_status config_check_length(run_config *cfg);

// Returns the value that a key was given; NULL: none.
const value *config_given(const run_config *cfg, const char *path);

// Values whose paths are not keys, in the order in which they stand.
typedef struct unknown_keys {
    const value **list; // of mem_alloc
    int n, cap;
} unknown_keys;
// Adds a value, or what lies in it when it is a section.
void unknown_keys_add(unknown_keys *all, const value *v);
// Refuses all of them, each with the key that was meant, as far as that can be told. DRV_OK: there
// are none.
DRV_CHECKED drv_status unknown_keys_refuse(arena *a, const unknown_keys *all);
