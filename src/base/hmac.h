// HMAC-SHA256 (RFC 2104, FIPS 180-4) by OpenSSL's libcrypto.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { HMAC_BYTES = 32 };

// DRV_E_IO: OpenSSL's libcrypto is not there.
DRV_CHECKED drv_status hmac_sha256(const void *key, size_t key_bytes, const void *data,
        size_t data_bytes, unsigned char out[HMAC_BYTES]);
// Compares two codes in constant time, so that nobody can find a code by timing.
bool hmac_equal(const unsigned char *mine, const unsigned char *theirs);
