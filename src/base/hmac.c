// HMAC-SHA256 by libcrypto.
#include "base/hmac.h"

#include "base/crypto_calls.h"

drv_status hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t data_bytes,
        unsigned char out[HMAC_BYTES]) {
    const crypto_calls *crypto;
    unsigned n = 0;
    DRV_TRY(crypto_open("processes prove to each other who they are with", &crypto));
    const unsigned char *made =
            crypto->HMAC(crypto->EVP_sha256(), key, (int)key_bytes, data, data_bytes, out, &n);
    DRV_ASSERT(made && n == HMAC_BYTES, "libcrypto makes a code of %u bytes", n);
    return DRV_OK;
}

bool hmac_equal(const unsigned char *mine, const unsigned char *theirs) {
    unsigned differs = 0;
    for (int i = 0; i < HMAC_BYTES; i++)
        differs |= (unsigned)(mine[i] ^ theirs[i]);
    return differs == 0;
}
