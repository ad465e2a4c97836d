// Makes the secrets that open the page of a run, and writes them where whoever may read the run's
// private files finds them.
#pragma once
#include "base/status.h"
#include "watch/server/page_request.h"

// 128 bits of the system's random numbers as hexadecimal digits. DRV_E_IO: there are none.
DRV_CHECKED drv_status page_secret_make(char out[SECRET_BYTES]);

// Writes RUN_DIR/http.json: address, token, and the address that a browser opens once. Only its
// owner may read it. DRV_E_IO, DRV_E_FULL.
DRV_CHECKED drv_status page_secrets_write(const char *run_dir, const char *address,
        const page_keys *keys);
void page_secrets_remove(const char *run_dir);

// Reads a token of at least so many characters, without the space around it. DRV_E_IO, DRV_E_DATA:
// no such file, or no such token in it.
DRV_CHECKED drv_status page_token_read(const char *path, int least, char out[TOKEN_MAX]);
