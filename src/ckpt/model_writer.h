// Writes a source as a Hugging Face folder: chosen tensors in any type, a config.json that names
// the type, and the copied files. Holds one piece of a tensor in memory, for a model of any size.
#pragma once
#include "source/foreign_names.h"
#include "source/foreign_state.h"
#include "source/model_source.h"
#include "ckpt/out_folder.h"

// A change of values while they are copied, such as merging an adapter.
typedef struct model_change {
    bool (*has)(void *ctx, const source_tensor *t); // whether `rows` changes this tensor
    drv_status (*rows)(void *ctx, const source_tensor *t, int64_t row, int64_t n, float *values);
    void *ctx;
} model_change;

// Checks the whole folder before it is renamed into place, and may add files. If *good is false,
// the folder is renamed to PATH.unproved instead.
typedef struct model_proof {
    drv_status (*look)(void *ctx, out_folder *o, bool *good);
    void *ctx;
} model_proof;

typedef struct model_write_opts {
    const char *verb;    // "import": begins the progress line
    bool has_type;       // all tensors get `type`: F32, F16 or BF16
    st_type type;        // otherwise each tensor keeps its type, and quantised ones become F32
    int64_t shard_bytes; // 0: SHARD_BYTES
    bool force;          // write to a folder that has other files
    bool keep_blocks;    // copy a GGUF file itself, as SOURCE_GGUF, instead of writing safetensors
    const foreign_names
            *dcp;           // write a checkpoint of torch.distributed.checkpoint; NULL: safetensors
    const char *dcp_prefix; // prefix of its names
    const json_t *dcp_config;  // with dcp: the model's config with all fields (model_config_json),
                               // since a source's own may leave some out
    const ckpt_carried *files; // instead of the source's own files; NULL: the source's
    int n_files;
    model_change change; // has NULL: none
    // The optimizer's state, which makes the folder a checkpoint with optimizer.safetensors,
    // trainer.json and a manifest; NULL: none.
    const model_source *optimizer;
    const foreign_progress *progress;
    model_proof proof; // look NULL: none
} model_write_opts;

typedef struct model_written { // for a summary
    int64_t bytes;
    st_type type; // the type in config.json
    int n_tensors;
    double seconds;
    const char *unproved; // the path if the check failed; NULL: the folder is in place
} model_written;

// DRV_E_USAGE: `path` is a file, the source itself or a checkpoint of a run, or it has files and
// `force` is not given. Call it before long work.
DRV_CHECKED drv_status model_write_check(const char *source, const char *path, bool force);

// Checks it, names the folder and takes its lock, which the caller releases.
DRV_CHECKED drv_status model_write_open(arena *a, const char *source, const char *path, bool force,
        out_folder *o, file_lock *lock);

// `list`: the tensors to write, by their names in the source. The folder appears complete or not at
// all. The texts in `out` live in `a`.
DRV_CHECKED drv_status model_write(arena *a, const model_source *s, const st_entry *list, int n,
        const char *path, const model_write_opts *opts, model_written *out);

// Writes NAME.safetensors with the tensors of `list` in their types, or shards of at most
// `shard_bytes` (0: SHARD_BYTES) and their index.
DRV_CHECKED drv_status model_write_tensors(const model_source *s, const char *name,
        const st_entry *list, int n, int64_t shard_bytes, out_folder *o,
        const model_write_opts *opts);
// For writers of other formats: reads rows of a tensor, applies the change and rounds them to
// `type`; `values` has room for n * cols floats.
DRV_CHECKED drv_status model_read_as(const model_source *s, const model_change *change,
        const source_tensor *t, st_type type, int64_t row, int64_t n, float *values, void *bytes);
// DRV_E_IO: the file system of `path` does not have that many bytes free.
DRV_CHECKED drv_status model_write_room(const char *path, int64_t bytes);
const char *model_torch_type(st_type type); // "bfloat16"

// Writes the tensors of `list` into the folder as a checkpoint of torch.distributed.checkpoint
// (.metadata and __0_0.distcp), piece by piece, under the names of opts->dcp (dcp_writer.c).
// DRV_E_DATA: the trainer has no name for a tensor.
DRV_CHECKED drv_status dcp_write(arena *a, const model_source *s, const st_entry *list, int n,
        out_folder *o, const model_write_opts *opts);

// Copies a checkpoint or a model bit for bit: writes the model, and the optimizer if there is one,
// in as few files as shard_bytes allows, copies all other files, and writes a new manifest if there
// was one. A run resumes from the result as from the original. DRV_E_USAGE as in model_write_check.
DRV_CHECKED drv_status ckpt_consolidate(arena *a, const char *path, const char *out,
        int64_t shard_bytes, bool force);
