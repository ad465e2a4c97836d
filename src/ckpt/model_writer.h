// A source as a Hugging Face folder: chosen tensors in any type, config.json that says so, and the
// files that go with them. Memory is one piece of a tensor, whatever the model's size.
#pragma once
#include "ckpt/foreign_names.h"
#include "ckpt/foreign_state.h"
#include "ckpt/model_source.h"
#include "ckpt/out_folder.h"

// Values that are changed on their way, as by an adapter.
typedef struct model_change {
    bool (*has)(void *ctx, const source_tensor *t); // rows of this tensor go through `rows`
    drv_status (*rows)(void *ctx, const source_tensor *t, int64_t row, int64_t n, float *values);
    void *ctx;
} model_change;

// Looks at the whole folder before it is put in place, and may add files. `good` false: it is put
// beside its place, as PATH.unproved.
typedef struct model_proof {
    drv_status (*look)(void *ctx, out_folder *o, bool *good);
    void *ctx;
} model_proof;

typedef struct model_write_opts {
    const char *verb;    // "import": begins the progress line
    bool has_type;       // all tensors get `type`: F32, F16 or BF16
    st_type type;        // otherwise each keeps its own; quantised ones become F32
    int64_t shard_bytes; // 0: SHARD_BYTES
    bool force;          // write into a folder that has other files
    bool keep_blocks;    // of a GGUF file: the file itself, as SOURCE_GGUF, without safetensors
    const foreign_names *dcp;  // a checkpoint of torch.distributed.checkpoint; NULL: safetensors
    const char *dcp_prefix;    // before its names
    const ckpt_carried *files; // instead of the source's own; NULL: those
    int n_files;
    model_change change; // has NULL: none
    // State of the optimizer that goes with it, which makes the folder a checkpoint with
    // optimizer.safetensors, trainer.json and a manifest; NULL: none.
    const model_source *optimizer;
    const foreign_progress *progress;
    model_proof proof; // look NULL: none
} model_write_opts;

typedef struct model_written { // for a summary
    int64_t bytes;
    st_type type; // what config.json says
    int n_tensors;
    double seconds;
    const char *unproved; // where it lies when it was not good; NULL: it is in place
} model_written;

// DRV_E_USAGE: `path` is a file, the source itself or a checkpoint of a run, or it has files and
// `force` is not given. Best asked before long work.
DRV_CHECKED drv_status model_write_check(const char *source, const char *path, bool force);

// `list`: the tensors to write, by names that the source has. The folder appears whole or not at
// all. What `out` holds lives in `a`.
DRV_CHECKED drv_status model_write(arena *a, const model_source *s, const st_entry *list, int n,
        const char *path, const model_write_opts *opts, model_written *out);

// For writers of other formats. Reads rows of a tensor as they are written, changed and rounded;
// `values` has room for n * cols floats.
DRV_CHECKED drv_status model_read_as(const model_source *s, const model_change *change,
        const source_tensor *t, st_type type, int64_t row, int64_t n, float *values, void *bytes);
// DRV_E_IO: the disk that `path` is on has no room for so many bytes.
DRV_CHECKED drv_status model_write_room(const char *path, int64_t bytes);
const char *model_torch_type(st_type type); // "bfloat16"
