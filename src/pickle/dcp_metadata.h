// .metadata of a checkpoint of torch.distributed.checkpoint (DCP; torch/distributed/checkpoint/
// metadata.py and filesystem.py, versions 2.0 to 2.11): a pickle of the class Metadata, which says
// of what chunks each tensor consists and where they lie in the files beside it.
// Legend: r a reading, e an entry
#pragma once
#include "pickle/torch_file.h"

// A rectangle of a tensor: an archive of torch.save in a file.
typedef struct dcp_chunk {
    int64_t offset[MAX_TORCH_DIMS], size[MAX_TORCH_DIMS];
    const char *file; // in the folder; NULL: nothing says where
    int64_t at, bytes;
} dcp_chunk;

// A tensor, or an object (`type` NULL, one chunk), that was saved whole.
typedef struct dcp_entry {
    const char *name;
    const torch_type *type;
    int n_dims, n_chunks;
    int64_t dim[MAX_TORCH_DIMS];
    dcp_chunk *chunks;
} dcp_entry;

typedef struct dcp_metadata {
    dcp_entry *entries;
    int n;
    name_map by_name;
} dcp_metadata;

// Reads the bytes, which outlive the result. The chunks of a tensor lie in it, each has a place,
// and they fill it without overlapping. DRV_E_DATA: they do not, or it is something else.
DRV_CHECKED drv_status dcp_metadata_parse(arena *a, const char *path, const void *p, size_t n,
        dcp_metadata *out);
