// Hashes of files by OpenSSL's libcrypto, which is opened at its first use.
#include "data/get/file_hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/crypto_calls.h"
#include "base/file.h"

drv_status file_hash(const char *path, hash_kind kind, char out[HASH_TEXT_BYTES]) {
    enum { PIECE_BYTES = 1 << 20 };
    const crypto_calls *crypto;
    DRV_TRY(crypto_open("downloads are checked with", &crypto));
    int fd;
    int64_t bytes;
    DRV_TRY(file_open_regular(path, &fd, &bytes));
    FILE *file = fdopen(fd, "rb");
    DRV_ASSERT(file, "a descriptor that was opened to read");
    EVP_MD_CTX *digest = crypto->EVP_MD_CTX_new();
    DRV_ASSERT(digest &&
                       crypto->EVP_DigestInit_ex(digest,
                               kind == HASH_GIT ? crypto->EVP_sha1() : crypto->EVP_sha256(), NULL),
            "libcrypto");
    if (kind == HASH_GIT) {
        char head[64];
        const int n = snprintf(head, sizeof head, "blob %lld", (long long)bytes);
        crypto->EVP_DigestUpdate(digest, head, (size_t)n + 1);
    }
    unsigned char sum[EVP_MAX_MD_SIZE], *piece = mem_alloc(PIECE_BYTES);
    for (size_t k; (k = fread(piece, 1, PIECE_BYTES, file));)
        crypto->EVP_DigestUpdate(digest, piece, k);
    unsigned n_sum = 0;
    crypto->EVP_DigestFinal_ex(digest, sum, &n_sum);
    DRV_ASSERT(2 * n_sum < HASH_TEXT_BYTES, "a hash of %u bytes", n_sum);
    for (unsigned i = 0; i < n_sum; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
    free(piece);
    crypto->EVP_MD_CTX_free(digest);
    fclose(file);
    return DRV_OK;
}
