// Imports and exports models: writes a folder that other tools read, piece by piece, and proves
// that it is the model that it was made from.
#pragma once
#include "ckpt/model_writer.h"
#include "convert/compare.h"

typedef struct convert_result {
    model_written written;
    bool compared;         // otherwise `comparison` is empty
    comparison comparison; // its problem NULL: good
} convert_result;

// Writes the model at `path` as a folder at `out`. `verify`: source and result are replayed and
// compared, the result is stored beside the model as verify.json, and one that is out of bounds is
// left beside its place as OUT.unproved, and is DRV_E_DATA. What `result` holds lives in `a`.
DRV_CHECKED drv_status convert_export(arena *a, const char *path, const char *out,
        const model_write_opts *opts, bool verify, convert_result *result);

// A base with an adapter (PEFT's folder): what its weights become on their way out, and the files
// that go with them. Its tokenizer counts when it has one. Single owner.
typedef struct merged_model {
    model base;
    adapter adapter;
    const char *name; // "BASE + ADAPTER"
    model_change change;
    struct merging *merging; // of `change`
    const ckpt_carried *files;
    int n_files;
} merged_model;
DRV_CHECKED drv_status merged_open(arena *a, const char *base, const char *adapter_path,
        merged_model *out);
void merged_close(merged_model *m);

// The same of a model with an adapter (PEFT's folder): W + scale B A in fp32, rounded once. Its
// tokenizer counts when it has one.
DRV_CHECKED drv_status convert_merge(arena *a, const char *base, const char *adapter_path,
        const char *out, const model_write_opts *opts, bool verify, convert_result *result);

// Writes a model from elsewhere, by the tensors of `list`. `verify`: the hashes of all weights are
// compared, and where rounding makes them differ, the two are replayed as above. opts->optimizer
// has to have the moments of all weights, and nothing else but masters.
DRV_CHECKED drv_status convert_import(arena *a, const model *from, const st_entry *list, int n,
        const char *out, const model_write_opts *opts, bool verify, convert_result *result);
