// Hashes of files by OpenSSL's libcrypto, which is opened at its first use.
#include "data/get/file_hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/library.h"

typedef struct evp_calls {
    __typeof__(EVP_sha1) *sha1;
    __typeof__(EVP_sha256) *sha256;
    __typeof__(EVP_MD_CTX_new) *MD_CTX_new;
    __typeof__(EVP_DigestInit_ex) *DigestInit_ex;
    __typeof__(EVP_DigestUpdate) *DigestUpdate;
    __typeof__(EVP_DigestFinal_ex) *DigestFinal_ex;
    __typeof__(EVP_MD_CTX_free) *MD_CTX_free;
} evp_calls;

#define CALL(name)                                                                                 \
    { "EVP_" #name, offsetof(evp_calls, name) }

static drv_status open_crypto(const evp_calls **out) {
    static const library_call calls[] = {CALL(sha1), CALL(sha256), CALL(MD_CTX_new),
            CALL(DigestInit_ex), CALL(DigestUpdate), CALL(DigestFinal_ex), CALL(MD_CTX_free)};
    enum { N_CALLS = sizeof calls / sizeof *calls };
    _Static_assert(sizeof(evp_calls) == N_CALLS * sizeof(void *), "every function has a row");
    static evp_calls table;
    static library crypto = {.file = LIBRARY_FILE,
            .calls = calls,
            .n_calls = N_CALLS,
            .table = &table};
    *out = &table;
    if (library_ready(&crypto)) return DRV_OK;
    return drv_fail(DRV_E_IO,
            "downloads are checked with OpenSSL's libcrypto, which cannot be loaded: %s (on Debian: apt-get install libssl3)",
            crypto.why);
}

drv_status file_hash(const char *path, hash_kind kind, char out[HASH_TEXT_BYTES]) {
    enum { PIECE_BYTES = 1 << 20 };
    const evp_calls *evp;
    DRV_TRY(open_crypto(&evp));
    int fd;
    int64_t bytes;
    DRV_TRY(file_open_regular(path, &fd, &bytes));
    FILE *file = fdopen(fd, "rb");
    DRV_ASSERT(file, "a descriptor that was opened to read");
    EVP_MD_CTX *digest = evp->MD_CTX_new();
    DRV_ASSERT(digest && evp->DigestInit_ex(digest, kind == HASH_GIT ? evp->sha1() : evp->sha256(),
                                 NULL),
            "libcrypto");
    if (kind == HASH_GIT) {
        char head[64];
        const int n = snprintf(head, sizeof head, "blob %lld", (long long)bytes);
        evp->DigestUpdate(digest, head, (size_t)n + 1);
    }
    unsigned char sum[EVP_MAX_MD_SIZE], *piece = mem_alloc(PIECE_BYTES);
    for (size_t k; (k = fread(piece, 1, PIECE_BYTES, file));)
        evp->DigestUpdate(digest, piece, k);
    unsigned n_sum = 0;
    evp->DigestFinal_ex(digest, sum, &n_sum);
    DRV_ASSERT(2 * n_sum < HASH_TEXT_BYTES, "a hash of %u bytes", n_sum);
    for (unsigned i = 0; i < n_sum; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
    free(piece);
    evp->MD_CTX_free(digest);
    fclose(file);
    return DRV_OK;
}
