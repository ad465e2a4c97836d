// Hashes of files by OpenSSL's libcrypto, which is opened at its first use.
#include "data/get/file_hash.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/crypto_calls.h"
#include "base/file.h"

// Begins a hash; git's begins with a header that has the number of bytes.
static EVP_MD_CTX *begin(const crypto_calls *crypto, hash_kind kind, int64_t bytes) {
    EVP_MD_CTX *digest = crypto->EVP_MD_CTX_new();
    DRV_MEMORY(digest &&
                       crypto->EVP_DigestInit_ex(digest,
                               kind == HASH_GIT ? crypto->EVP_sha1() : crypto->EVP_sha256(), NULL),
            "libcrypto could not begin a hash");
    if (kind == HASH_GIT) {
        char head[64];
        const int n = snprintf(head, sizeof head, "blob %lld", (long long)bytes);
        crypto->EVP_DigestUpdate(digest, head, (size_t)n + 1);
    }
    return digest;
}

static void end(const crypto_calls *crypto, EVP_MD_CTX *digest, char out[HASH_TEXT_BYTES]) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n_sum = 0;
    crypto->EVP_DigestFinal_ex(digest, sum, &n_sum);
    DRV_ASSERT(2 * n_sum < HASH_TEXT_BYTES, "a hash of %u bytes", n_sum);
    for (unsigned i = 0; i < n_sum; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
    crypto->EVP_MD_CTX_free(digest);
}

drv_status bytes_hash(const void *bytes, size_t n, hash_kind kind, char out[HASH_TEXT_BYTES]) {
    const crypto_calls *crypto;
    DRV_TRY(crypto_open("files are hashed with", &crypto));
    EVP_MD_CTX *digest = begin(crypto, kind, (int64_t)n);
    crypto->EVP_DigestUpdate(digest, bytes, n);
    end(crypto, digest, out);
    return DRV_OK;
}

drv_status file_hash(const char *path, hash_kind kind, char out[HASH_TEXT_BYTES]) {
    enum { PIECE_BYTES = 1 << 20 };
    const crypto_calls *crypto;
    DRV_TRY(crypto_open("files are hashed with", &crypto));
    int fd;
    int64_t bytes;
    DRV_TRY(file_open_regular(path, &fd, &bytes));
    FILE *file = fdopen(fd, "rb");
    DRV_MEMORY(file, "a buffer for \"%s\"", path);
    EVP_MD_CTX *digest = begin(crypto, kind, bytes);
    unsigned char *piece = mem_alloc(PIECE_BYTES);
    for (size_t k; (k = fread(piece, 1, PIECE_BYTES, file));)
        crypto->EVP_DigestUpdate(digest, piece, k);
    const drv_status status = ferror(file) ? file_fail("read", path) : DRV_OK;
    end(crypto, digest, out);
    free(piece);
    fclose(file);
    return status;
}
