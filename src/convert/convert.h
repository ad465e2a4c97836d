// Imports and exports models: writes a folder that other tools read, piece by piece, and proves
// that the result is the same model as the source.
#pragma once
#include "ckpt/model_writer.h"
#include "convert/compare.h"

typedef struct convert_result {
    model_written written;
    bool compared;         // otherwise `comparison` is empty
    comparison comparison; // its problem NULL: they are the same
} convert_result;

// Writes the model at `path` as a folder at `out`. `verify`: source and result are replayed and
// compared, and the comparison is stored with the model as verify.json. If it is out of bounds, the
// result is left at OUT.unproved, and the status is DRV_E_DATA. What `result` holds lives in `a`.
DRV_CHECKED drv_status convert_export(arena *a, const char *path, const char *out,
        const model_write_opts *opts, bool verify, convert_result *result);

// A base with an adapter (PEFT's folder), as it is written out: the changed weights, and the files
// that go with them. The adapter's tokenizer replaces the base's if it has one. Single owner.
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

// The same as convert_export for a base with an adapter (PEFT's folder): W + scale B A is computed
// in fp32 and rounded once. The adapter's tokenizer replaces the base's if it has one.
DRV_CHECKED drv_status convert_merge(arena *a, const char *base, const char *adapter_path,
        const char *out, const model_write_opts *opts, bool verify, convert_result *result);

// Writes an imported model, by the tensors of `list`. `verify`: the hashes of all weights are
// compared, and if they differ because of rounding, both models are replayed. opts->optimizer must
// have moments or momentum of all weights, and apart from these only masters and numbers per row.
DRV_CHECKED drv_status convert_import(arena *a, const model *from, const st_entry *list, int n,
        const char *out, const model_write_opts *opts, bool verify, convert_result *result);
