// Writes tensors whose pieces are on different ranks to safetensors files. All ranks write
// together; the bytes do not depend on which rank holds which piece.
#pragma once
#include "ckpt/block_hash.h"
#include "ckpt/ckpt.h"
#include "ckpt/out_folder.h"

// Writes as tensor_writer does (NAME.safetensors or shards with an index). Every rank calls it with
// the same list; `o` is the folder of rank 0, the others follow (out_folder_follow). All succeed or
// all fail.
DRV_CHECKED drv_status shared_write(const ckpt_ranks *ranks, out_folder *o, const char *name,
        const ckpt_tensor *list, int n, int64_t shard_bytes, ckpt_read read, void *ctx);

// Returns the bytes that a rank needs at most to write its part of a file: for the block that it
// writes and, if n_ranks > 1 ranks hold different values, for a block's bytes that it sends and a
// block's bytes that it receives.
static inline int64_t shared_write_bytes(int64_t file_bytes, int n_ranks) {
    const int64_t block = file_bytes < CKPT_BLOCK_BYTES ? file_bytes : CKPT_BLOCK_BYTES;
    return n_ranks > 1 ? 3 * block : block;
}
