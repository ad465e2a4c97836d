// A model on disk that drover understands: its source, its config and the tensors that it must have.
#pragma once
#include "ckpt/adapter.h"
#include "ckpt/ckpt.h"
#include "model/parameters.h"

// Artificial rounding errors: `relative` of each weight plus `floor`, added or subtracted by signs
// that depend on the weight's name, its index and `seed`. Both 0: no errors.
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
    disturbance disturbed;  // while a replay reads the weights
    const adapter *adapter; // added to the weights when they are used; NULL: none. Not owned
} model;

// Checks everything except the values. DRV_E_DATA: config.json does not describe a Llama that
// drover supports, or the tensors are not exactly those of the model.
DRV_CHECKED drv_status model_open(arena *a, const char *path, model *out);
// The same for a source that was opened as m->source, with the status `opened`.
DRV_CHECKED drv_status model_of_source(drv_status opened, arena *a, const char *path, model *m);
void model_close(model *m); // allowed after model_open has failed

// Returns the tensor whose type most bytes of the weights have.
const source_tensor *model_main_tensor(const model *m);
// Computes XXH3-128 in hex of the fp32 values of all parameters in order: equal for models with
// equal values, whatever their types and files. Reads all of the model.
DRV_CHECKED drv_status model_hash(const model *m, char hex[33]);
