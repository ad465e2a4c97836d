// Tensors into safetensors files of a folder, in order, piece by piece: NAME.safetensors, or
// NAME-00001-of-0000N.safetensors and an index when they are larger than a shard may be.
#pragma once
#include "ckpt/out_folder.h"
#include "ckpt/safetensors.h"

// The largest shard, as in save_pretrained of transformers 4 (huggingface_hub: "5GB" is decimal).
#define SHARD_BYTES 5000000000LL

// The division of tensors among files.
typedef struct tensor_shards {
    arena *a;
    const char *name;
    const st_entry *list;
    int n, n_shards;
    int *first; // of each shard, and n after the last
} tensor_shards;
// A shard takes tensors until the next would make it larger than shard_bytes (0: SHARD_BYTES); one
// that is larger has a shard for itself.
tensor_shards tensor_shards_of(arena *a, const char *name, const st_entry *list, int n,
        int64_t shard_bytes);
const char *tensor_shard_name(const tensor_shards *s, int shard);
// NAME.safetensors.index.json, where there are several.
DRV_CHECKED drv_status tensor_shards_index(const tensor_shards *s, out_folder *o);

typedef struct tensor_writer tensor_writer; // lives in the folder's arena

// `list` is all that will be written and outlives the writer.
DRV_CHECKED drv_status tensor_writer_open(out_folder *o, const char *name, const st_entry *list,
        int n, int64_t shard_bytes, tensor_writer **out);
// Writes the next bytes of the data, all within one tensor.
DRV_CHECKED drv_status tensor_writer_add(tensor_writer *w, const void *p, int64_t n);
// Writes the index; every byte must have come when `status`, the result so far, is DRV_OK.
DRV_CHECKED drv_status tensor_writer_close(tensor_writer *w, drv_status status);

// Rounds to nearest even into `out` (n elements of `type`: F32, F16 or BF16), which may be
// `values`. DRV_E_DATA: a value that the type cannot hold; the message names the tensor.
DRV_CHECKED drv_status tensor_round(const char *name, st_type type, const float *values, int64_t n,
        void *out);
