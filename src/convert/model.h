// A model on disk that drover understands: its source, its config and the tensors that it must have.
#pragma once
#include "ckpt/adapter.h"
#include "ckpt/ckpt.h"
#include "model/parameters.h"

// Artificial rounding errors: adds or subtracts `relative` of each weight and `floor`, with signs
// that depend on its name, place and `seed`. Both 0: no errors.
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
// The same of a file of torch.save, of the dict that `key` leads to (model_source_open_torch).
DRV_CHECKED drv_status model_open_key(arena *a, const char *path, const char *key, model *out);
// The same with the fp32 weights that lie beside the model file of a checkpoint, where there are
// some.
DRV_CHECKED drv_status model_open_masters(arena *a, const char *path, model *out);
void model_close(model *m); // also after model_open has failed

// Returns the type that most bytes of the weights are stored in.
const source_tensor *model_main_tensor(const model *m);
// XXH3-128 in hex of the fp32 values of all parameters in their order: equal for models of equal
// values, however they are stored and cut in files. Reads all of it.
DRV_CHECKED drv_status model_hash(const model *m, char hex[33]);
