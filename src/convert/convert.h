// Models in and out: a folder that other tools read, written piece by piece and proved to be the
// model that it was made from.
#pragma once
#include "ckpt/model_writer.h"
#include "convert/compare.h"

typedef struct convert_result {
    model_written written;
    bool compared;         // otherwise `comparison` is empty
    comparison comparison; // its problem NULL: good
} convert_result;

// The model at `path` as a folder at `out`. `verify`: source and result are replayed and compared,
// the result is stored beside the model as verify.json, and one that is out of bounds is left
// beside its place as OUT.unproved, and is DRV_E_DATA. What `result` holds lives in `a`.
DRV_CHECKED drv_status convert_export(arena *a, const char *path, const char *out,
        const model_write_opts *opts, bool verify, convert_result *result);

// The same of a model with an adapter (PEFT's folder): W + scale B A in fp32, rounded once. Its
// tokenizer counts when it has one.
DRV_CHECKED drv_status convert_merge(arena *a, const char *base, const char *adapter_path,
        const char *out, const model_write_opts *opts, bool verify, convert_result *result);
