// A model on disk that drover understands: its source, its config and the tensors that it must have.
#pragma once
#include "ckpt/adapter.h"
#include "ckpt/ckpt.h"
#include "model/parameters.h"

// Errors as rounding might have made them: each weight plus or minus `relative` of itself and
// `floor`, by signs that its name, place and `seed` decide. Of no size: none.
typedef struct disturbance {
    double relative, floor;
    uint64_t seed;
} disturbance;

typedef struct model { // single owner
    arena *a;
    const char *path;
    model_source source;
    json_t *config_json; // as the source gives it
    model_config config;
    param_list params;
    ckpt_tensor *tensors; // all parameters of the config, in the order of the data
    int n_tensors;
    disturbance disturbed;  // while a replay reads weights
    const adapter *adapter; // added to the weights while they are used; NULL: none. Not owned
} model;

// Everything is checked but the values: DRV_E_DATA when config.json is not that of a Llama that
// drover supports, or the tensors are not exactly its own.
DRV_CHECKED drv_status model_open(arena *a, const char *path, model *out);
// The same with the config.json of a checkpoint that has none; NULL: not given.
DRV_CHECKED drv_status model_open_with(arena *a, const char *path, const char *config_file,
        model *out);
// The same as model_open with the fp32 weights that lie beside the model file of a checkpoint,
// where there are some.
DRV_CHECKED drv_status model_open_masters(arena *a, const char *path, model *out);
void model_close(model *m); // fine when opening failed

// Returns the type that most bytes of the weights are stored in.
const source_tensor *model_main_tensor(const model *m);
// XXH3-128 in hex of the fp32 values of all parameters in their order: equal for models of equal
// values, however they are stored and cut in files. Reads all of it.
DRV_CHECKED drv_status model_hash(const model *m, char hex[33]);
