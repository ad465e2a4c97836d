// Hashes a file by blocks of a fixed size: the hash of the file is the XXH3-128 of the list of its
// blocks' XXH3-128. So it does not depend on which rank writes or reads which blocks
// (docs/adr/0010).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { CKPT_BLOCK_BYTES = 8 << 20 };

// Tells whether files have blocks of this size: a multiple of 64 up to 2^30.
bool block_bytes_fit(int64_t bytes);
// Counts the blocks of a file. DRV_E_DATA: there are more than 2^22, as in a file above 32 TiB with
// blocks of the usual size; a reader has to hold their digests in memory.
DRV_CHECKED drv_status block_count(const char *path, int64_t file_bytes, int64_t block_bytes,
        int64_t *out);
// Returns the block size of new checkpoints: the usual one, or DROVER_CKPT_BLOCK_BYTES, by which
// tests make small models have files of many blocks. DRV_E_USAGE: it is not a multiple of 64 up to
// 2^30.
DRV_CHECKED drv_status block_bytes_of_new(int64_t *out);

typedef struct block_digest { // canonical: the most significant byte first
    unsigned char byte[16];
} block_digest;

block_digest block_hash(const void *p, size_t n);
void block_digest_hex(const block_digest *d, char hex[33]);
// Ends a hash of XXH3-128, and prints it in the same way.
struct XXH3_state_s;
void hash_state_hex(const struct XXH3_state_s *state, char hex[33]);
// Hashes the digests of a file's n blocks, in their order, as hex.
void block_hash_list(const block_digest *blocks, int64_t n, char hex[33]);

// Rank `rank` of `ranks` writes the contiguous blocks first .. end - 1, so that its writes are
// long.
typedef struct block_range {
    int64_t first, end;
} block_range;
static inline block_range blocks_of_rank(int64_t n_blocks, int rank, int ranks) {
    return (block_range){rank * n_blocks / ranks, (rank + 1) * n_blocks / ranks};
}

// Computes the same hash from a stream of bytes.
typedef struct block_hasher block_hasher; // single owner
block_hasher *block_hasher_new(int64_t block_bytes);
void block_hasher_add(block_hasher *h, const void *p, size_t n);
void block_hasher_free(block_hasher *h, char hex[33]); // hex NULL: not wanted
