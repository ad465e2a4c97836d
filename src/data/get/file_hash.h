// The hashes by which the hub identifies the content of a file.
#pragma once
#include "base/status.h"

typedef enum hash_kind { HASH_SHA256, HASH_GIT } hash_kind; // git's: SHA-1 of a header and the file

enum { HASH_TEXT_BYTES = 65 }; // of the longest, in hexadecimal, with its NUL

// DRV_E_IO: the file cannot be read, or OpenSSL's libcrypto is not installed.
DRV_CHECKED drv_status file_hash(const char *path, hash_kind kind, char out[HASH_TEXT_BYTES]);
// The same for bytes in memory.
DRV_CHECKED drv_status bytes_hash(const void *bytes, size_t n, hash_kind kind,
        char out[HASH_TEXT_BYTES]);
