// Writes tensors in order and piece by piece to safetensors files of a folder: NAME.safetensors, or
// NAME-00001-of-0000N.safetensors and an index if they exceed the size of a shard.
#pragma once
#include "ckpt/out_folder.h"
#include "source/safetensors.h"

// The largest shard, as in save_pretrained of transformers 4 (huggingface_hub: "5GB" is decimal).
#define SHARD_BYTES 5000000000LL

// The division of tensors among files.
typedef struct tensor_shards {
    arena *a;
    const char *name;
    const st_entry *list;
    int n, n_shards;
    int *first; // index of each shard's first tensor; first[n_shards] is n
} tensor_shards;
// Fills each shard until the next tensor would make it larger than shard_bytes (0: SHARD_BYTES); a
// larger tensor gets a shard of its own.
tensor_shards tensor_shards_of(arena *a, const char *name, const st_entry *list, int n,
        int64_t shard_bytes);
const char *tensor_shard_name(const tensor_shards *s, int shard);
// Writes NAME.safetensors.index.json if there are several shards.
DRV_CHECKED drv_status tensor_shards_index(const tensor_shards *s, out_folder *o);

typedef struct tensor_writer tensor_writer; // lives in the folder's arena

// `list` has all tensors that will be written, and outlives the writer.
DRV_CHECKED drv_status tensor_writer_open(out_folder *o, const char *name, const st_entry *list,
        int n, int64_t shard_bytes, tensor_writer **out);
// Writes the next bytes of the data, all within one tensor.
DRV_CHECKED drv_status tensor_writer_add(tensor_writer *w, const void *p, int64_t n);
// Writes the index. If `status`, the result so far, is DRV_OK, all bytes must have been written.
DRV_CHECKED drv_status tensor_writer_close(tensor_writer *w, drv_status status);
