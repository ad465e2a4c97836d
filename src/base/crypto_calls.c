// OpenSSL's libcrypto, by the file that the build has found.
#include "base/crypto_calls.h"

#include "base/library.h"

#define CALL(name)                                                                                 \
    { #name, offsetof(crypto_calls, name) }

drv_status crypto_open(const char *what, const crypto_calls **out) {
    static const library_call calls[] = {CALL(EVP_sha1), CALL(EVP_sha256), CALL(EVP_MD_CTX_new),
            CALL(EVP_DigestInit_ex), CALL(EVP_DigestUpdate), CALL(EVP_DigestFinal_ex),
            CALL(EVP_MD_CTX_free), CALL(HMAC)};
    enum { N_CALLS = sizeof calls / sizeof *calls };
    _Static_assert(sizeof(crypto_calls) == N_CALLS * sizeof(void *), "every function has a row");
    static crypto_calls table;
    static library crypto = {.file = LIBRARY_FILE,
            .calls = calls,
            .n_calls = N_CALLS,
            .table = &table};
    *out = &table;
    if (library_ready(&crypto)) return DRV_OK;
    return drv_fail(DRV_E_IO,
            "%s OpenSSL's libcrypto, which cannot be loaded: %s (on Debian: apt-get install libssl3)",
            what, crypto.why);
}
