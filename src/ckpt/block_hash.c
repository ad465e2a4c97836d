// XXH3-128 of blocks, and of the list of their digests.
#include "ckpt/block_hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/arena.h"
#include "base/round.h"
#include "base/str.h"

bool block_bytes_fit(int64_t bytes) {
    return bytes > 0 && bytes <= 1 << 30 && bytes % 64 == 0;
}

drv_status block_count(const char *path, int64_t file_bytes, int64_t block_bytes, int64_t *out) {
    enum { MOST = 1 << 22 };
    *out = div_up(file_bytes, block_bytes);
    if (*out <= MOST) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: %lld blocks of %lld bytes (block_bytes of its manifest.json), expected at most %d",
            path, (long long)*out, (long long)block_bytes, MOST);
}

drv_status block_bytes_of_new(int64_t *out) {
    const char *asked = getenv("DROVER_CKPT_BLOCK_BYTES");
    *out = CKPT_BLOCK_BYTES;
    if (!asked || !*asked) return DRV_OK;
    if (str_to_i64(asked, out) && block_bytes_fit(*out)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "DROVER_CKPT_BLOCK_BYTES is \"%s\", expected a multiple of 64 up to 2^30", asked);
}

static block_digest digest_of(XXH128_hash_t hash) {
    XXH128_canonical_t canonical;
    block_digest out;
    XXH128_canonicalFromHash(&canonical, hash);
    memcpy(out.byte, canonical.digest, sizeof out.byte);
    return out;
}

block_digest block_hash(const void *p, size_t n) {
    return digest_of(XXH3_128bits(p, n));
}

void block_digest_hex(const block_digest *d, char hex[33]) {
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", d->byte[i]);
}

void hash_state_hex(const XXH3_state_t *state, char hex[33]) {
    const block_digest digest = digest_of(XXH3_128bits_digest(state));
    block_digest_hex(&digest, hex);
}

void block_hash_list(const block_digest *blocks, int64_t n, char hex[33]) {
    const block_digest all = block_hash(blocks, sizeof *blocks * (size_t)n);
    block_digest_hex(&all, hex);
}

struct block_hasher {
    XXH3_state_t *state; // of the block under way
    size_t filled, size;
    block_digest *blocks;
    int64_t n, cap;
};

block_hasher *block_hasher_new(int64_t block_bytes) {
    block_hasher *h = mem_zeroed(sizeof *h);
    h->state = XXH3_createState();
    DRV_MEMORY(h->state, "to hash in");
    XXH3_128bits_reset(h->state);
    h->size = (size_t)block_bytes;
    return h;
}

static void end_block(block_hasher *h) {
    MEM_GROW(h->blocks, h->n, h->cap);
    h->blocks[h->n++] = digest_of(XXH3_128bits_digest(h->state));
    XXH3_128bits_reset(h->state);
    h->filled = 0;
}

void block_hasher_add(block_hasher *h, const void *p, size_t n) {
    const char *rest = p;
    while (n) {
        const size_t room = h->size - h->filled, k = n < room ? n : room;
        XXH3_128bits_update(h->state, rest, k);
        h->filled += k;
        rest += k;
        n -= k;
        if (h->filled == h->size) end_block(h);
    }
}

void block_hasher_free(block_hasher *h, char hex[33]) {
    if (h->filled) end_block(h);
    if (hex) block_hash_list(h->blocks, h->n, hex);
    XXH3_freeState(h->state);
    free(h->blocks);
    free(h);
}
