// .metadata of a checkpoint of torch.distributed.checkpoint (DCP; torch/distributed/checkpoint/
// metadata.py and filesystem.py, versions 2.0 to 2.11): a pickle of the class Metadata, which lists
// the chunks of each tensor and their offsets in the files of the folder.
// Legend: r a reading, e an entry
#pragma once
#include "pickle/torch_file.h"

// A rectangle of a tensor: an archive of torch.save in a file.
typedef struct dcp_chunk {
    int64_t offset[MAX_TORCH_DIMS], size[MAX_TORCH_DIMS];
    const char *file; // in the folder; NULL: its position is unknown
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

// Parses the bytes, which must outlive the result. Checks that the chunks of each tensor have
// positions and cover it without overlapping. DRV_E_DATA: they do not, or the bytes are not such a
// pickle.
DRV_CHECKED drv_status dcp_metadata_parse(arena *a, const char *path, const void *p, size_t n,
        dcp_metadata *out);
