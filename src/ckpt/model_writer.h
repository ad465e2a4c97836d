// A source as a Hugging Face folder: chosen tensors in any type, config.json that says so, and the
// files that go with them. Memory is one piece of a tensor, whatever the model's size.
#pragma once
#include "ckpt/model_source.h"

typedef struct model_write_opts {
    const char *verb;    // "import": begins the progress line
    bool has_type;       // all tensors get `type`: F32, F16 or BF16
    st_type type;        // otherwise each keeps its own; quantised ones become F32
    int64_t shard_bytes; // 0: SHARD_BYTES
    bool force;          // write into a folder that has other files
} model_write_opts;

typedef struct model_written { // for a summary
    int64_t bytes;
    st_type type; // what config.json says
    int n_tensors;
    double seconds;
} model_written;

// DRV_E_USAGE: `path` is a file, or has files and `force` is not given. Best asked before long work.
DRV_CHECKED drv_status model_write_check(const char *path, bool force);

// `list`: the tensors to write, by names that the source has. The folder appears whole or not at
// all.
DRV_CHECKED drv_status model_write(const model_source *s, const st_entry *list, int n,
        const char *path, const model_write_opts *opts, model_written *out);
