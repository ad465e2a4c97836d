// The functions of OpenSSL's libcrypto that drover calls; the library is opened on first use.
#pragma once
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/status.h"

typedef struct crypto_calls {
    __typeof__(EVP_sha1) *EVP_sha1;
    __typeof__(EVP_sha256) *EVP_sha256;
    __typeof__(EVP_MD_CTX_new) *EVP_MD_CTX_new;
    __typeof__(EVP_DigestInit_ex) *EVP_DigestInit_ex;
    __typeof__(EVP_DigestUpdate) *EVP_DigestUpdate;
    __typeof__(EVP_DigestFinal_ex) *EVP_DigestFinal_ex;
    __typeof__(EVP_MD_CTX_free) *EVP_MD_CTX_free;
    __typeof__(HMAC) *HMAC;
} crypto_calls;

// Opens the library. DRV_E_IO: it cannot be loaded; the message begins with `what` ("proofs need").
DRV_CHECKED drv_status crypto_open(const char *what, const crypto_calls **out);
