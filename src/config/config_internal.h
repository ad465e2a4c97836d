// Shared by the files of config: loading (config.c), the initial model and rules over several keys
// (check.c), and messages for unknown keys (unknown_key.c).
#pragma once
#include "config/config.h"
#include "config/value.h"

// Fills cfg->model from the preset or from model.from, and the default of model.weights.
DRV_CHECKED drv_status config_base_model(arena *a, run_config *cfg);
// Drops the token ids of model.from's config.json when another tokenizer makes the data.
void config_choose_ids(arena *a, run_config *cfg);
// Checks rules over several keys, and fills in the shape of heads. DRV_E_USAGE.
DRV_CHECKED drv_status config_check(arena *a, run_config *cfg);
// Refuses conflicting keys for the length of the run or its warm-up; sets cfg->steps if that does
// not depend on the data.
DRV_CHECKED drv_status config_check_length(run_config *cfg);

// Refuses YAML that readers understand in different ways. `file` NULL: the text is a single value
// with the path and the place of `of`. Text that is not YAML at all is left to the reader.
// DRV_E_USAGE.
DRV_CHECKED drv_status yaml_check(const char *file, const value *of, const char *text, size_t n);

// Returns the value that a key was given; NULL: none.
const value *config_given(const run_config *cfg, const char *path);

// Returns the first key below a section; NULL: no section has this name.
const char *config_first_below(arena *a, const char *section);

// The values whose paths are not keys, or that stand where a section belongs, in file order.
typedef struct unknown_keys {
    const value **list; // of mem_alloc
    int n, cap;
} unknown_keys;
// Adds a value, or the values in it if it is a section.
void unknown_keys_add(unknown_keys *all, const value *v);
// Refuses all of them (DRV_E_USAGE), each with the key that was probably meant. DRV_OK: none.
DRV_CHECKED drv_status unknown_keys_refuse(arena *a, const unknown_keys *all);
